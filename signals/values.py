"""Values of metrics: which numbers a metric's type and bounds let through.

>>> from signals.settings import MetricSettings
>>> Number.of(MetricSettings(type="boolean")).read(True)
1.0
>>> Number.of(MetricSettings(type="count", high=10)).read(2.5)
Traceback (most recent call last):
signals.errors.Rejected: not a count
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from signals.errors import Rejected
from signals.settings import MetricSettings


class Number(Struct, frozen=True, gc=False):
    """How values of one metric are read."""

    type: Literal["boolean", "float", "count", "duration"]
    low: float
    high: float

    @classmethod
    def of(cls, metric: MetricSettings) -> Number:
        """As declared."""
        return cls(metric.type, metric.low, metric.high)

    def read(self, value: float | None) -> float:
        """The value as a number, when it is of the type and within the bounds.

        Raises ``Rejected``. Booleans are 0 and 1, and there is one zero.
        """
        if value is None:
            raise Rejected("a value is required", field="value", allowed=self.type)
        if not self._fits(value):
            raise Rejected(f"not a {self.type}", field="value", value=value, allowed=self.type)
        if not self.low <= value <= self.high:
            raise Rejected(
                "out of the metric's bounds",
                field="value",
                value=value,
                allowed=[self.low, self.high],
            )
        return value + 0.0

    def _fits(self, value: float) -> bool:
        if self.type == "boolean":
            return value in (0, 1)
        if isinstance(value, bool):
            return False
        if self.type == "float":
            return True
        return value >= 0 and (self.type == "duration" or value == int(value))

"""Knob specs: what a live parameter is, and which values it may take.

``capacity`` is fixed when the engine starts; every policy stays within it. ``capability`` says how
a change lands: ``live`` (next step), ``drain`` (as work finishes), ``idle`` (only when idle),
``restart``, or ``unsupported``. A knob that is ``per_request`` takes effect on a request when it
arrives and on nothing else, so that two requests beside each other may have different values of it.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from signals.errors import Rejected

Capability = Literal["live", "drain", "idle", "restart", "unsupported"]
Risk = Literal["low", "medium", "high"]
Safer = Literal["up", "down"]
"""The direction of a knob that was declared safer: what lowers risk needs fewer people."""

TARGET_SCOPE = "target"


class KnobSpec(Struct, frozen=True, kw_only=True):
    """One live parameter of an engine. Values are integers in ``unit``, ``low`` to ``capacity``."""

    name: str
    unit: str
    low: int
    capacity: int
    boot: int
    capability: Capability = "live"
    scopes: tuple[str, ...] = (TARGET_SCOPE,)
    per_request: bool = False
    effect_delay_s: float
    risk: Risk = "medium"
    doc: str = ""

    def check(self, value: int, *, field: str) -> None:
        """Raise ``Rejected`` naming the field, the value and the allowed range."""
        if self.capability in ("unsupported", "restart"):
            raise Rejected(f"{self.name} is {self.capability} on this engine", field=field)
        if isinstance(value, bool) or not isinstance(value, int):
            raise Rejected(f"{self.name} takes a whole number", field=field, value=value)
        if not self.low <= value <= self.capacity:
            raise Rejected(
                f"{self.name} = {value} is out of range",
                field=field,
                value=value,
                allowed=f"{self.low}..{self.capacity} {self.unit}",
            )

    def check_scope(self, scope: str, *, field: str) -> None:
        """Raise ``Rejected`` when this knob has no setting at that scope."""
        if scope not in self.scopes:
            raise Rejected(
                f"{self.name} has no scope {scope!r}", field=field, value=scope, allowed=self.scopes
            )

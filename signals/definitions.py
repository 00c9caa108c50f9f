"""Metric definitions by version: an event is read by the one in force when it was accepted.

A name, its layer, type and unit are for ever; bounds, direction, attribution and owner may change,
and each change is a new version. Windows of different versions can therefore be added up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

from msgspec import Struct

from signals.settings import MetricSettings

ManagedBy = Literal["built_in", "file", "api"]


class Definition(Struct, frozen=True, kw_only=True):
    """One version of one metric, in force from ``from_us`` until ``retired_us`` (None: still).

    A version ends when the next one begins, or when the metric is retired. Ingest follows within
    the age of its cache, so a few events are accepted under a version that has just ended.
    """

    name: str
    version: int
    metric: MetricSettings
    managed_by: ManagedBy
    from_us: int
    retired_us: int | None = None


class Definitions(Protocol):
    """Where definitions are looked up. Cheap: asked for every post and every batch."""

    def current(self) -> Mapping[str, Definition]:
        """Those in force, at most 5 s out of date. Raises ``Unavailable`` before the first read."""

    def version(self, name: str, version: int) -> Definition | None:
        """One version, also one made a moment ago, also a retired one; None: there is none.

        Raises ``Unavailable``.
        """


class StaticDefinitions:
    """Definitions that never change, each in its first version.

    >>> StaticDefinitions({"copied": MetricSettings()}).current()["copied"].version
    1
    """

    def __init__(self, metrics: Mapping[str, MetricSettings]) -> None:
        self._current = {
            name: Definition(name=name, version=1, metric=metric, managed_by="file", from_us=0)
            for name, metric in metrics.items()
        }

    def current(self) -> Mapping[str, Definition]:
        """See ``Definitions.current``."""
        return self._current

    def version(self, name: str, version: int) -> Definition | None:
        """See ``Definitions.version``."""
        found = self._current.get(name)
        return found if found is not None and found.version == version else None


def absent_counts(metric: MetricSettings) -> bool:
    """Whether a request without a value counts as a zero once its attribution has closed."""
    if metric.absent is not None:
        return metric.absent == "zero"
    return metric.type in ("boolean", "count")

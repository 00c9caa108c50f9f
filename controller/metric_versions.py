"""How one version of a metric definition follows another.

::

    for ever     name, layer, type, unit: figures of two versions can be added up
    by version   bounds, direction, attribution_s, absent, owner: a change is a new version
"""

from __future__ import annotations

from typing import Final

from signals.definitions import Definition, ManagedBy
from signals.errors import Conflict
from signals.settings import MetricSettings

FOR_EVER: Final = ("layer", "type", "unit")


def next_version(
    latest: Definition | None,
    name: str,
    metric: MetricSettings,
    *,
    managed_by: ManagedBy,
    at_us: int,
) -> Definition:
    """What follows ``latest``, a name's last version; itself, if it is in force and says the same.

    Raises ``Conflict`` where it would change what is for ever, also when ``latest`` is retired:
    its figures are in windows still.
    """
    if latest is None:
        return Definition(name=name, version=1, metric=metric, managed_by=managed_by, from_us=at_us)
    for field in FOR_EVER:
        was, wanted = getattr(latest.metric, field), getattr(metric, field)
        if was != wanted:
            raise Conflict(
                f"{name} was declared with {field} {was!r}, for ever, and can't become {wanted!r};"
                " declare a new name",
                field=field,
                value=wanted,
                allowed=was,
            )
    if in_force(latest) and (latest.metric, latest.managed_by) == (metric, managed_by):
        return latest
    return Definition(
        name=name,
        version=latest.version + 1,
        metric=metric,
        managed_by=managed_by,
        from_us=max(at_us, latest.from_us, latest.retired_us or 0),
    )


def in_force(one: Definition) -> bool:
    """Whether events are read under it now."""
    return one.retired_us is None

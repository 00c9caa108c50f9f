"""One producer's values of one metric for one request, taken together whatever their order. Pure.

A boolean or float is what was said last, by (time, event id): users change their minds. A count or
duration is a sum: three pastes are three, held to the bounds of the metric as they were for the
last of them. Either way a request has one value of a producer, and what an event adds to the sums
of its window is a whole number, negative where it takes something back.

>>> def said(micros, time_us):
...     return Value(micros=micros, low=0, high=2_000_000, time_us=time_us, event_id="a",
...                  arrival_us=0)
>>> combined(said(1_000_000, 5), said(0, 4), "boolean").counted
1000000
>>> combined(said(1_500_000, 5), said(1_000_000, 4), "duration").counted
2000000
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from signals.features.change import Value

MOST_MICROS: Final = 2**62
"""A sum stays there: far beyond any metric's bounds, and a column still holds it."""


def combined(before: Value | None, said: Value, type_: str) -> Value:
    """The value with one more event. ``type_``: the metric's."""
    if before is None:
        return said
    latest = max(before, said, key=lambda each: (each.time_us, each.event_id))
    if type_ in ("boolean", "float"):
        return latest
    total = before.micros + said.micros
    return replace(latest, micros=max(-MOST_MICROS, min(MOST_MICROS, total)))

"""One producer's values of one metric for one request, taken together whatever their order. Pure.

A boolean or float is what was said last, by (time, event id): users change their minds. A count or
duration is a sum: three pastes are three. Either way a request has one value of a producer, and
what an event adds to the sums of its window is a whole number, negative where it takes something
back.

>>> last = combined(None, 1_000_000, time_us=5, event_id="b", arrival_us=0, type_="boolean")
>>> combined(last, 0, time_us=4, event_id="c", arrival_us=0, type_="boolean") == last
True
>>> combined(last, 500_000, time_us=9, event_id="a", arrival_us=0, type_="duration").micros
1500000
"""

from __future__ import annotations

from signals.features.change import Value


def combined(
    before: Value | None, micros: int, *, time_us: int, event_id: str, arrival_us: int, type_: str
) -> Value:
    """The value with one more event. ``type_``: the metric's."""
    latest = Value(micros=micros, time_us=time_us, event_id=event_id, arrival_us=arrival_us)
    if before is None:
        return latest
    if (before.time_us, before.event_id) > (time_us, event_id):
        latest = before
    if type_ in ("boolean", "float"):
        return latest
    return Value(
        micros=before.micros + micros,
        time_us=latest.time_us,
        event_id=latest.event_id,
        arrival_us=arrival_us,
    )

"""Which request an event is about, when it names it by an id that is not the engine's own. Pure.

::

    external id   the latest request with it that had arrived before the event, else the earliest
    session       the last request of the session before the event

A session has many requests, so which is the last is known only once all that arrived before the
event are. Hence the event waits until its target's watermark is ``lateness_s`` past its own time:
nothing that keeps to the lateness can change the answer then, in whatever order it came. A
watermark may stand still because engines are silent; then the event waits ``correlate_s`` more by
the clock of the bus, which the order of entries says, and takes what is known. It is bound once.

An event of a session without any request before it stays an orphan. The first request record that
turns up for it after all, having arrived before the event, takes it.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from signals.events import MICROS
from signals.features.model import RequestRow
from signals.settings import FeatureSettings


class Wait(Struct, frozen=True):
    """How long an event of a session waits: until the watermark is at ``due_us``, or something was
    accepted at ``give_up_us``."""

    due_us: int
    give_up_us: int


def wait_of(time_us: int, accepted_us: int, settings: FeatureSettings) -> Wait:
    """For an event of that time, accepted then."""
    due_us = time_us + settings.lateness_s * MICROS
    return Wait(due_us, max(due_us, accepted_us) + settings.correlate_s * MICROS)


def last_before(requests: Iterable[RequestRow], time_us: int) -> RequestRow | None:
    """The last request that had arrived then; of several at once the one with the highest id."""
    arrived = (row for row in requests if row.arrival_us <= time_us)
    return max(arrived, key=_arrival, default=None)


def nearest(requests: Iterable[RequestRow], time_us: int) -> RequestRow | None:
    """The last before, else the first after it: a client's clock may be a little behind."""
    known = list(requests)
    return last_before(known, time_us) or min(known, key=_arrival, default=None)


def _arrival(row: RequestRow) -> tuple[int, str]:
    return row.arrival_us, row.request_id

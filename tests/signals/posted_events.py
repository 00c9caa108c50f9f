"""Events as their producers post them: valid, until a test changes a member."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from signals.counts import Moments, WindowCounts
from signals.events import MICROS, Counted, Named, NamedRequest, Record
from signals.features import sketch
from signals.records import record_id, record_name
from tests.signals import making
from tests.signals.making import T0_US, request_id

NOW = datetime.fromtimestamp(T0_US / MICROS, UTC)
ID = request_id(1)
ATOM_US = 5 * MICROS
START_US = T0_US - T0_US % ATOM_US


def event(**changes: Any) -> dict[str, Any]:
    """A valid business event with changes; None takes a member away."""
    return without_none(
        {
            "id": "bad",
            "kind": "business",
            "time": NOW.isoformat(),
            "name": "copied",
            "value": True,
            "request_id": ID,
        }
        | changes
    )


def score(**changes: Any) -> dict[str, Any]:
    """A valid semantic event with changes."""
    return event(**{"kind": "semantic", "name": "reward", "value": 0.5, "model": "m1"} | changes)


def about(**changes: Any) -> dict[str, Any]:
    """A valid business event that names its request otherwise than by its id."""
    return event(**{"request_id": None, "target": "chat"} | changes)


def command(which: str = "replay", /, **changes: Any) -> dict[str, Any]:
    """A valid command with changes in its ``command`` member."""
    bodies: Mapping[str, dict[str, Any]] = {
        "replay": {"offsets": [7]},
        "discard": {"where": {"reason": "conflict"}},
        "quarantine": {"name": "shop", "on": True, "reason": "rates jumped"},
    }
    body = {"command": which, "actor": "ann"} | bodies[which] | changes
    return without_none(
        {
            "id": "bad",
            "kind": "command",
            "name": which,
            "target": "chat",
            "time": NOW.isoformat(),
            "command": without_none(body),
        }
    )


def posted(record: Record, **changes: Any) -> dict[str, Any]:
    """A record as its engine posts it, with changes."""
    made = {
        "id": record_id(record),
        "kind": "basic",
        "name": record_name(record),
        "target": record.stamp.target,
        "data": msgspec.to_builtins(record),
    }
    return without_none(made | changes)


def counted(**changes: Any) -> Counted:
    """A valid window, counted at the edge: two requests, of 200 and 400 ms."""
    made = Counted(
        seq=9,
        stamp=making.stamp(),
        at_us=START_US + ATOM_US,
        source="edge-1",
        intent="live",
        start_us=START_US,
        revision=1,
        counts=counts(),
    )
    return msgspec.structs.replace(made, **changes)


def counts(**changes: Any) -> WindowCounts:
    made = WindowCounts(
        arrivals=2, completed=2, judged=2, good=1, requests=2, covered_us=ATOM_US, ttft=moments()
    )
    return msgspec.structs.replace(made, **changes)


def moments(**changes: Any) -> Moments:
    bins: sketch.Bins = {}
    for value_us in (200_000, 400_000):
        sketch.add(bins, value_us)
    made = Moments(count=2, sum_us=600_000, sum_sq=200_000_000_000, sketch=sketch.encode(bins))
    return msgspec.structs.replace(made, **changes)


def with_moments(**changes: Any) -> Counted:
    return counted(counts=counts(ttft=moments(**changes)))


def named(count: int = 2, **changes: Any) -> Named:
    """A valid record of requests that were counted at the edge; ``changes`` to the last."""
    requests = [
        NamedRequest(
            request_id=request_id(number),
            intent="live",
            class_="interactive",
            arrival_us=T0_US - number,
            session_id="s1",
        )
        for number in range(count)
    ]
    if requests:
        requests[-1] = msgspec.structs.replace(requests[-1], **changes)
    return Named(seq=10, stamp=making.stamp(), at_us=T0_US, requests=tuple(requests))


def without_none(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def cloud(**changes: Any) -> dict[str, Any]:
    """A valid CloudEvent with changes."""
    return without_none(
        {
            "specversion": "1.0",
            "id": "bad",
            "source": "/shop",
            "type": "trimtab.business.copied",
            "time": NOW.isoformat(),
            "data": {"value": True, "request_id": ID},
        }
        | changes
    )

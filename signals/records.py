"""What every engine record has, whichever of the four it is: its name, event time and id."""

from __future__ import annotations

from typing import Final

from signals.events import Arrived, Finished, Record, Second, Started

RECORD_NAMES: Final = ("arrived", "finished", "second", "started")


def record_name(record: Record) -> str:
    """The name a basic signal carries: the record's tag."""
    return str(type(record).__struct_config__.tag)


def event_time_us(record: Record) -> int:
    """When it happened, on the engine's clock."""
    match record:
        case Arrived():
            return record.arrival_us
        case Finished():
            return record.finished_us
        case Second():
            return record.to_us
        case Started():
            return record.at_us


def record_id(record: Record) -> str:
    """``<replica>.<incarnation>.<seq>``: unique within the target."""
    return f"{record.stamp.replica}.{record.stamp.incarnation}.{record.seq}"

"""What every engine record has, whichever of the six it is: its name, event time and id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from signals.events import Arrived, Counted, Finished, Named, Record, Second, Started

RECORD_NAMES: Final = ("arrived", "finished", "second", "started", "counted", "named")
TIME_FIELDS: Final[Mapping[type[Record], str]] = {
    Arrived: "arrival_us",
    Finished: "finished_us",
    Second: "to_us",
    Started: "at_us",
    Counted: "at_us",
    Named: "at_us",
}


def record_name(record: Record) -> str:
    """The name a basic signal carries: the record's tag."""
    return str(type(record).__struct_config__.tag)


def event_time_us(record: Record) -> int:
    """When it happened, on the engine's clock."""
    return int(getattr(record, TIME_FIELDS[type(record)]))


def record_id(record: Record) -> str:
    """``<replica>.<incarnation>.<seq>``: unique within the target."""
    return f"{record.stamp.replica}.{record.stamp.incarnation}.{record.seq}"

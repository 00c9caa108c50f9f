"""A record as a line of ``POST /v1/signals`` (NDJSON)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Literal

import msgspec
from msgspec import Struct

from signals.events import MICROS, Arrived, Finished, Record, Second, Started


class PostedSignal(Struct, frozen=True, kw_only=True):
    """The wire form of a basic signal. ``producer`` is added by ingest from the key."""

    id: str
    kind: Literal["basic"] = "basic"
    name: str
    target: str
    time: str
    data: Record


def occurred_us(record: Record) -> int:
    """When a record's event took place, in Unix microseconds."""
    match record:
        case Arrived():
            return record.arrival_us
        case Finished():
            return record.finished_us
        case Second():
            return record.to_us
        case Started():
            return record.at_us


def posted(record: Record) -> PostedSignal:
    """The signal that carries a record; its id is ``<replica>.<incarnation>.<seq>``."""
    stamp = record.stamp
    moment = datetime.fromtimestamp(occurred_us(record) // MICROS, tz=UTC)
    moment = moment.replace(microsecond=occurred_us(record) % MICROS)
    return PostedSignal(
        id=f"{stamp.replica}.{stamp.incarnation}.{record.seq}",
        name=str(record.__struct_config__.tag),
        target=stamp.target,
        time=moment.isoformat(timespec="microseconds").replace("+00:00", "Z"),
        data=record,
    )


def ndjson(records: Iterable[Record]) -> bytes:
    """One line per record."""
    return b"".join(msgspec.json.encode(posted(record)) + b"\n" for record in records)

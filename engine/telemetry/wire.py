"""A record as a line of ``POST /v1/signals`` (NDJSON)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import msgspec

from signals.events import Record
from signals.records import event_time_us, record_id, record_name
from signals.wire import Posted

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def posted(record: Record) -> Posted:
    """The signal that carries a record; its id is ``<replica>.<incarnation>.<seq>``."""
    return Posted(
        id=record_id(record),
        kind="basic",
        name=record_name(record),
        target=record.stamp.target,
        time=_EPOCH + timedelta(microseconds=event_time_us(record)),
        data=record,
    )


def ndjson(records: Iterable[Record]) -> bytes:
    """One line per record."""
    return b"".join(msgspec.json.encode(posted(record)) + b"\n" for record in records)

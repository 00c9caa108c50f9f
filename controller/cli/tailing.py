"""Following the bus: where to begin, which events to show, and one line for each.

What is shown comes from the event's own fields. Those hold no text of prompts or answers; a body
that can't be decoded, and an engine's words about an error, could, so they are not shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from controller.cli.tables import when
from controller.history import times
from signals.bus.port import BusReader, Entry
from signals.codec import Malformed, decode
from signals.errors import Rejected
from signals.events import (
    MICROS,
    Arrived,
    Counted,
    Finished,
    Named,
    Record,
    Second,
    Signal,
    Started,
)

READ_AT_ONCE: Final = 1000
_FURTHER: Final = 8


class Wanted(Struct, frozen=True, kw_only=True):
    """Which events to show. What is None is not looked at."""

    target: str | None = None
    kind: str | None = None
    name: str | None = None
    producer: str | None = None

    def covers(self, entry: Entry, signal: Signal | None) -> bool:
        """Whether an event is one of them; one that can't be decoded has no kind and name."""
        if self.target not in (None, entry.key) or self.producer not in (None, entry.producer):
            return False
        if signal is None:
            return self.kind is None and self.name is None
        return self.kind in (None, signal.kind) and self.name in (None, signal.name)


class Shown(Struct, frozen=True, kw_only=True):
    """An event as it is shown. ``signal`` None: it can't be decoded."""

    partition: int
    entry: Entry
    signal: Signal | None


def moment(text: str, now_us: int, *, field: str = "--since") -> int:
    """``10m`` or ``1h30m`` ago, or an RFC 3339 time; µs since the epoch. Raises ``Rejected``.

    >>> moment("90s", 100_000_000), moment("1m30s", 100_000_000)
    (10000000, 10000000)
    """
    if text and times.SPAN.fullmatch(text):
        return now_us - times.span(text, field=field)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise Rejected(
            f"{text!r} is no moment",
            field=field,
            value=text,
            allowed="10m, 2h, 1d12h ago, or RFC 3339 with an offset, e.g. 2026-11-24T03:00Z",
        )
    return int(at.timestamp()) * MICROS + at.microsecond


def before(reader: BusReader, since_us: int) -> int:
    """The offset to read after, for what was accepted at ``since_us`` or later.

    By bisection: entries stand in the order of their acceptance.
    """
    status = reader.status()
    low, high = status.first - 1, max(status.end, status.first - 1)
    while low < high:
        middle = (low + high) // 2
        found = reader.read(after=middle, limit=1)
        if not found or found[0].accepted_us >= since_us:
            high = middle
        else:
            low = found[0].offset
    return low


def last(reader: BusReader, count: int) -> int:
    """The offset to read after, for the last ``count`` events.

    Offsets rise, but not by one everywhere: further and further back until so many are found.
    """
    status = reader.status()
    beginning, span = status.first - 1, count
    while True:
        after = max(beginning, status.end - span)
        offsets = [after, *_offsets(reader, after, status.end)]
        if len(offsets) > count or after == beginning:
            return offsets[max(0, len(offsets) - 1 - count)]
        span *= _FURTHER


def _offsets(reader: BusReader, after: int, end: int) -> Iterator[int]:
    while after < end:
        entries = reader.read(after=after, limit=READ_AT_ONCE)
        if not entries:
            return
        yield from (entry.offset for entry in entries)
        after = entries[-1].offset


def read(
    readers: Mapping[int, BusReader], positions: dict[int, int], wanted: Wanted
) -> Iterator[Shown]:
    """What is on the bus after ``positions``, by time of acceptance; moves them on.

    One bounded read of each partition; nothing when all has been read.
    """
    gathered: list[tuple[int, Entry]] = []
    for partition, reader in readers.items():
        entries = reader.read(after=positions[partition], limit=READ_AT_ONCE)
        gathered += [(partition, entry) for entry in entries]
        if entries:
            positions[partition] = entries[-1].offset
    for partition, entry in sorted(gathered, key=lambda each: each[1].accepted_us):
        signal = _decoded(entry)
        if wanted.covers(entry, signal):
            yield Shown(partition=partition, entry=entry, signal=signal)


def line(shown: Shown) -> str:
    """One event in one line."""
    entry, signal = shown.entry, shown.signal
    head = f"{when(entry.accepted_us)}  {entry.offset:>8}  {entry.key}  {entry.producer}"
    if signal is None:
        return f"{head}  can't be decoded ({len(entry.body)} bytes)"
    return f"{head}  {signal.kind} {signal.name}  {_what(signal)}"


def plain(shown: Shown) -> dict[str, Any]:
    """One event for a script."""
    found: dict[str, Any] = {
        "partition": shown.partition,
        "offset": shown.entry.offset,
        "accepted_us": shown.entry.accepted_us,
        "target": shown.entry.key,
        "producer": shown.entry.producer,
        "signal": None,
    }
    if shown.signal is not None:
        found["signal"] = msgspec.to_builtins(shown.signal)
        (found["signal"].get("data") or {}).pop("error", None)
    return found


def _decoded(entry: Entry) -> Signal | None:
    try:
        return decode(entry.body)
    except Malformed:
        return None


def _what(signal: Signal) -> str:
    if signal.data is not None:
        return _record(signal.data)
    if signal.command is not None:
        return f"by {signal.command.actor}"
    ids = {
        "request": signal.request_id,
        "external": signal.external_id,
        "session": signal.session_id,
    }
    about = " ".join(f"{name} {id_}" for name, id_ in ids.items() if id_ is not None)
    value = "" if signal.value is None else f"{signal.value:g}  "
    return f"{value}{about}  id {signal.id}"


def _record(record: Record) -> str:
    """An engine's record in a few words."""
    by = f"{record.stamp.replica} seq {record.seq}"
    if isinstance(record, Arrived):
        told = f"{record.request_id} {record.intent}, {record.prompt_tokens} tokens in"
    elif isinstance(record, Finished):
        told = f"{record.request_id} {record.intent} {record.status}, {record.output_tokens} out"
    elif isinstance(record, Second):
        loads = record.intents.values()
        waiting, running = sum(o.waiting for o in loads), sum(o.running for o in loads)
        told = f"{waiting} waiting, {running} running"
    elif isinstance(record, Counted):
        told = f"{record.source} {record.intent}, revision {record.revision}"
    elif isinstance(record, Named):
        told = f"{len(record.requests)} requests"
    else:
        assert isinstance(record, Started)
        told = f"up, {record.fingerprint}"
    return f"{told}  ({by})"

"""How rows of ``features.db`` become values, and values rows."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from signals.events import Signal
from signals.features.batch import DeadLetter
from signals.features.change import EngineState, Orphan, Part, PartKey, Value, ValueKey
from signals.features.correlate import Wait
from signals.features.deaths import RunState
from signals.features.model import (
    Outcome,
    RequestRow,
    SecondRow,
    WindowCounts,
    WindowKey,
    WindowRevision,
)
from signals.features.operating import CommandOutcome, Quarantined
from signals.features.producers import ProducerCounts

T = TypeVar("T")

WINDOW_COLUMNS = (
    "target, width_s, start_us, replica, intent, digest, trial, block,"
    " revision, closed, incomplete, cursor, requests, counts"
)


def _decoder(type_: type[T]) -> msgspec.json.Decoder[T]:
    return msgspec.json.Decoder(type_)


request_decoder = _decoder(RequestRow)
second_decoder = _decoder(SecondRow)
outcome_decoder = _decoder(Outcome)
engine_decoder = _decoder(EngineState)
signal_decoder = _decoder(Signal)
producer_decoder = _decoder(ProducerCounts)
command_decoder = _decoder(CommandOutcome)
quarantine_decoder = _decoder(Quarantined)
run_decoder = _decoder(RunState)
_counts_decoder = _decoder(WindowCounts)
_encoder = msgspec.json.Encoder()


def text(value: object) -> str:
    """A value as the JSON that is stored."""
    return _encoder.encode(value).decode()


def window_of(row: tuple[Any, ...]) -> WindowRevision:
    """From the ``WINDOW_COLUMNS``."""
    revision, closed, incomplete, cursor, _, counts = row[8:]
    return WindowRevision(
        cursor=cursor,
        key=key_of(row),
        revision=revision,
        closed=bool(closed),
        incomplete=bool(incomplete),
        counts=_counts_decoder.decode(counts),
    )


def key_of(row: tuple[Any, ...]) -> WindowKey:
    """From the ``WINDOW_COLUMNS``."""
    target, width_s, start_us, replica, intent, digest, trial, block = row[:8]
    return WindowKey(
        target=target,
        replica=replica,
        intent=intent,
        digest=digest,
        trial=trial,
        block=block,
        start_us=start_us,
        width_s=width_s,
    )


def row_of_key(key: WindowKey) -> tuple[str | int, ...]:
    """The unique columns, in the order of ``WINDOW_COLUMNS``."""
    return (
        key.target,
        key.width_s,
        key.start_us,
        key.replica,
        key.intent,
        key.digest,
        key.trial,
        key.block,
    )


def row_of_window(window: WindowRevision) -> tuple[str | int, ...]:
    """To the ``WINDOW_COLUMNS``."""
    return (
        *row_of_key(window.key),
        window.revision,
        window.closed,
        window.incomplete,
        window.cursor,
        window.counts.requests,
        text(window.counts),
    )


def row_of_request(row: RequestRow) -> tuple[str | int | None, ...]:
    """To the columns of ``requests``; ``due_us`` only while it may still come to matter."""
    return (
        row.request_id,
        row.target,
        row.intent,
        row.arrival_us,
        "" if row.counted else row.trial,
        row.block,
        row.good,
        row.deadline_us if row.good is None else None,
        row.external_id,
        row.session_id,
        text(row),
    )


def dead_orphan(offset: int, accepted_us: int, signal_text: str) -> DeadLetter:
    """What becomes of an orphan that nobody claimed."""
    signal = signal_decoder.decode(signal_text)
    return DeadLetter(
        offset=offset,
        target=signal.target,
        producer=signal.producer,
        event_id=signal.id,
        reason="orphan_expired",
        detail="its request was never seen",
        accepted_us=accepted_us,
        body=signal_text.encode(),
        owns_id=True,
    )


def orphan_of(row: tuple[Any, ...]) -> Orphan:
    """From bus offset, time of acceptance, signal, and (of a session) how long it waits."""
    offset, accepted_us, signal, *waits = row
    return Orphan(
        offset=offset,
        accepted_us=accepted_us,
        signal=signal_decoder.decode(signal),
        wait=Wait(*waits) if any(waits) else None,
    )


def row_of_part(key: PartKey, part: Part) -> tuple[str | int, ...]:
    """To the columns of ``edge_parts``."""
    return *row_of_key(key.window), key.source, part.revision, text(part.counts)


def part_of(row: tuple[Any, ...]) -> tuple[PartKey, Part]:
    """From the columns of ``edge_parts``."""
    *key, source, revision, counts = row
    part = Part(revision=revision, counts=_counts_decoder.decode(counts))
    return PartKey(source=source, window=key_of(tuple(key))), part


def row_of_value(key: ValueKey, value: Value) -> tuple[str | int, ...]:
    """To the columns of ``outcome_values``."""
    return (
        *key,
        value.micros,
        value.low,
        value.high,
        value.time_us,
        value.event_id,
        value.arrival_us,
    )


def value_of(row: tuple[Any, ...]) -> tuple[ValueKey, Value]:
    """From the columns of ``outcome_values``."""
    request_id, metric, producer, *value = row
    return (request_id, metric, producer), Value(
        **dict(zip(Value.__struct_fields__, value, strict=True))
    )

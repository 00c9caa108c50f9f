"""A stretch of the bus, decoded: events to fold, and what can't be."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence, Set

from msgspec import Struct, field

from signals.bus.port import Entry
from signals.codec import Malformed, decode
from signals.events import Arrived, Counted, Finished, Named, NamedRequest, Signal

DIGEST_BYTES = 16


class Event(Struct, frozen=True, kw_only=True):
    """A signal and where it stood on the bus. ``sightings``: see there; an engine's own records are
    known by their numbers instead."""

    offset: int
    accepted_us: int
    signal: Signal
    body: bytes
    sightings: Sightings = ()


Sightings = tuple[tuple[bytes, bytes], ...]


def sightings(signal: Signal, body: bytes) -> Sightings:
    """What an event is known by in the dedupe tables, each with the digest of what it says.

    First (producer, id) and its body as posted; then, of a score, (request, metric, model) and its
    value: one model's score of a request is one and the same under any id.
    """
    own = (digest_of(f"{signal.producer}\n{signal.id}".encode()), digest_of(_posted(signal, body)))
    if signal.kind != "semantic" or signal.request_id is None:
        return (own,)
    named = ("score", signal.target, signal.request_id, signal.name, signal.model or "")
    return own, (digest_of("\n".join(named).encode()), digest_of(repr(signal.value).encode()))


def _posted(signal: Signal, body: bytes) -> bytes:
    """The body without the definition that ingest read it by: an event that is posted again after a
    change of its metric says the same as before."""
    if signal.definition is None:
        return body
    return body.replace(b',"definition":%d' % signal.definition, b"", 1)


class DeadLetter(Struct, frozen=True, kw_only=True):
    """An acknowledged event that can't be counted, kept with the reason.

    ``reason``: undecodable, conflict, undeclared_metric, outside_attribution, orphan_expired,
    sequence_forgotten, window_forgotten, quarantined, unfoldable, deadly or too_old.
    ``attempts``: replays in vain. ``owns_id``: its id (of a record: its number) was remembered
    when it came, so no other event has used it.
    """

    offset: int
    target: str
    producer: str
    event_id: str
    reason: str
    detail: str
    accepted_us: int
    body: bytes
    attempts: int = 0
    owns_id: bool = False


class Again(Struct, frozen=True, kw_only=True):
    """A dead letter to be replayed, and its event as if it came now; None where it can't be, for
    this ``reason`` and ``detail``."""

    letter: DeadLetter
    event: Event | None
    reason: str = ""
    detail: str = ""


class Summoned(Struct, frozen=True, kw_only=True):
    """The dead letters that a command is about; see ``CommandOutcome`` for the counts."""

    again: Sequence[Again] = ()
    absent: int = 0
    left: int = 0
    last_offset: int = 0


class Batch(Struct, frozen=True, kw_only=True):
    """Events in bus order, dead letters, and the offset of the last of them.

    ``commands`` are offsets; a command is folded in a batch of its own, with what it ``summoned``.
    """

    events: list[Event]
    dead: list[DeadLetter]
    last_offset: int
    commands: Set[int] = frozenset()
    summoned: Summoned = Summoned()


EngineKey = tuple[str, str, str]
"""(target, replica, incarnation)."""

ExternalId = tuple[str, str]
"""(target, external id)."""

Session = tuple[str, str]
"""(target, session id)."""


class Needs(Struct, frozen=True, kw_only=True):
    """What must be known before a batch can be folded.

    ``request_ids`` and ``external_ids`` are all that occur, ``named`` and ``named_external`` those
    that feedback names. ``arrivals``: the earliest arrival in each session that a request names;
    ``moments``: sessions that feedback names, and when. ``accepted_us``: when the last event was.
    """

    identities: set[bytes] = field(default_factory=set)
    request_ids: set[str] = field(default_factory=set)
    external_ids: set[ExternalId] = field(default_factory=set)
    named: set[str] = field(default_factory=set)
    named_external: set[ExternalId] = field(default_factory=set)
    arrivals: dict[Session, int] = field(default_factory=dict)
    moments: set[tuple[str, str, int]] = field(default_factory=set)
    counted: list[Counted] = field(default_factory=list)
    engines: set[EngineKey] = field(default_factory=set)
    targets: set[str] = field(default_factory=set)
    accepted_us: int = 0


def decode_all(entries: Sequence[Entry]) -> Batch:
    """Decode each entry by itself. ``entries`` must not be empty."""
    events: list[Event] = []
    dead: list[DeadLetter] = []
    commands: set[int] = set()
    for entry in entries:
        try:
            signal = decode(entry.body)
        except Malformed as malformed:
            dead.append(_letter(entry, "undecodable", malformed.detail))
        else:
            events.append(
                Event(
                    offset=entry.offset,
                    accepted_us=entry.accepted_us,
                    signal=signal,
                    body=entry.body,
                    sightings=() if signal.data is not None else sightings(signal, entry.body),
                )
            )
            if signal.kind == "command":
                commands.add(entry.offset)
    return Batch(events=events, dead=dead, last_offset=entries[-1].offset, commands=commands)


def needs(batch: Batch) -> Needs:
    """Everything that folding the batch may look up."""
    accepted_us = max((event.accepted_us for event in batch.events), default=0)
    found = Needs(accepted_us=accepted_us)
    replayed = (each.event for each in batch.summoned.again if each.event is not None)
    for event in (*batch.events, *replayed):
        signal, record = event.signal, event.signal.data
        found.targets.add(signal.target)
        if record is None:
            _for_feedback(found, event)
            continue
        stamp = record.stamp
        found.engines.add((stamp.target, stamp.replica, stamp.incarnation))
        if isinstance(record, Arrived | Finished):
            _for_request(found, stamp.target, record)
        elif isinstance(record, Named):
            for request in record.requests:
                _for_request(found, stamp.target, request)
        elif isinstance(record, Counted):
            found.counted.append(record)
    return found


def _for_feedback(found: Needs, event: Event) -> None:
    signal = event.signal
    found.identities.update(identity for identity, _ in event.sightings)
    if signal.request_id is not None:
        found.request_ids.add(signal.request_id)
        found.named.add(signal.request_id)
    elif signal.external_id is not None:
        found.external_ids.add((signal.target, signal.external_id))
        found.named_external.add((signal.target, signal.external_id))
    elif signal.session_id is not None:
        found.moments.add((signal.target, signal.session_id, signal.time_us))


def _for_request(found: Needs, target: str, record: Arrived | Finished | NamedRequest) -> None:
    found.request_ids.add(record.request_id)
    if record.external_id is not None:
        found.external_ids.add((target, record.external_id))
    if record.session_id is not None:
        session = (target, record.session_id)
        earliest_us = found.arrivals.get(session, record.arrival_us)
        found.arrivals[session] = min(earliest_us, record.arrival_us)


def apart(entries: Sequence[Entry], commands: Set[int]) -> Iterator[Sequence[Entry]]:
    """The entries in order, each command by itself. ``commands``: their offsets."""
    start = 0
    for index, entry in enumerate(entries):
        if entry.offset in commands:
            if index > start:
                yield entries[start:index]
            yield entries[index : index + 1]
            start = index + 1
    if start < len(entries):
        yield entries[start:]


def burying(entry: Entry, reason: str, detail: str) -> Batch:
    """A batch that only buries one entry."""
    letter = _letter(entry, reason, detail)
    return Batch(events=[], dead=[letter], last_offset=entry.offset)


def _letter(entry: Entry, reason: str, detail: str) -> DeadLetter:
    return DeadLetter(
        offset=entry.offset,
        target=entry.key,
        producer=entry.producer,
        event_id="",
        reason=reason,
        detail=detail,
        accepted_us=entry.accepted_us,
        body=entry.body,
    )


def kind_of(letter: DeadLetter) -> str:
    """The kind of its event; ``unknown`` where that can't be read, or must not be."""
    if letter.reason == "deadly":
        return "unknown"
    try:
        return decode(letter.body).kind
    except Malformed:
        return "unknown"


def digest_of(body: bytes) -> bytes:
    """What tells one body from another."""
    return hashlib.blake2b(body, digest_size=DIGEST_BYTES).digest()

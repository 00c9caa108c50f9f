"""What the stage knew before a batch, and what the batch changes. In memory; no I/O."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from signals.definitions import Definitions
from signals.events import Command, ErasedBy, KvLayout, Signal
from signals.features.batch import (
    DeadLetter,
    EngineKey,
    Event,
    ExternalId,
    Session,
    Summoned,
    kind_of,
)
from signals.features.correlate import Wait
from signals.features.model import Outcome, RequestRow, SecondRow, WindowCounts, WindowKey
from signals.features.operating import CommandOutcome, Quarantined
from signals.features.producers import Delays, ProducerCounts
from signals.features.sequences import Sequence
from signals.features.windows import Tally
from signals.settings import FeatureSettings, IntentSettings, Slo

_DEFAULT_SLO = Slo()

Fate = Literal["joined", "orphaned", "duplicate"]

_IDS_OF_OTHERS = ("conflict", "unfoldable")
"""Reasons of feedback whose id was not remembered as its own."""
_NUMBERS_NOTED = ("conflict", "window_forgotten")
"""Reasons of records whose number was noted, so that they would now be taken for duplicates."""


class FeatureRules(Struct, frozen=True, kw_only=True):
    """What is declared: target -> intent -> settings, metrics, and the stage's own settings."""

    intents: Mapping[str, Mapping[str, IntentSettings]]
    definitions: Definitions
    settings: FeatureSettings

    def slo(self, target: str, intent: str) -> Slo:
        """An intent's service level; nobody declared it: any answer is good."""
        declared = self.intents.get(target, {}).get(intent)
        return declared.slo if declared is not None else _DEFAULT_SLO

    def declared(self, target: str) -> Mapping[str, IntentSettings]:
        """The intents declared for a target."""
        return self.intents.get(target, {})


class EngineState(Struct, kw_only=True):
    """One incarnation of a replica, as its records have told so far."""

    target: str
    replica: str
    incarnation: str
    first_us: int
    last_us: int
    dropped: int = 0
    fingerprint: str | None = None
    curve: tuple[tuple[int, int, int], ...] = ()
    kv: KvLayout | None = None
    sequence: Sequence = field(default_factory=Sequence)
    delays: Delays = field(default_factory=Delays)


class Orphan(Struct, frozen=True, kw_only=True):
    """Feedback whose request is not known yet.

    ``wait``: it names a session, and waits for all requests before it to be known; None: for
    the first that it can be about.
    """

    offset: int
    accepted_us: int
    signal: Signal
    wait: Wait | None = None


class JoinedOutcome(Struct, frozen=True, kw_only=True):
    """An outcome and the bus offset of the event that brought it."""

    offset: int
    outcome: Outcome


ValueKey = tuple[str, str, str]
"""(request, metric, producer)."""


class Value(Struct, frozen=True, kw_only=True):
    """What one producer says of one request, all its events of one metric taken together.

    ``micros`` is the latest by (``time_us``, ``event_id``), or a sum; these and the bounds are the
    latest event's in either case. ``arrival_us`` is the request's.
    """

    micros: int
    low: int
    high: int
    time_us: int
    event_id: str
    arrival_us: int

    @property
    def counted(self) -> int:
        """As it counts in windows: a sum of many events is held to the bounds like one event's, or
        a producer could move a rate further than its share of it."""
        return max(self.low, min(self.high, self.micros))


class PartKey(Struct, frozen=True, kw_only=True, order=True):
    """A window as one source at the edge counts it."""

    source: str
    window: WindowKey


class Part(Struct, frozen=True, kw_only=True):
    """What a source says of a window, in its latest revision."""

    revision: int
    counts: WindowCounts


class Suspect(Struct, frozen=True):
    """Event time of a replica whose windows may have become complete or incomplete."""

    target: str
    replica: str
    from_us: int
    to_us: int


class Carried(Struct, frozen=True, kw_only=True):
    """A command that is carried out here, in ``event``."""

    event: Event
    command: Command
    summoned: Summoned


class Erasure(Struct, frozen=True, kw_only=True):
    """What is to be let go of, in a target, by the command at this offset."""

    offset: int
    target: str
    by: ErasedBy
    ids: tuple[str, ...]


class Known:
    """Everything that ``Needs`` asked for, kept up to date while the batch is folded."""

    def __init__(self) -> None:
        self.digests: dict[bytes, bytes] = {}
        self.rows: dict[str, RequestRow] = {}
        self.by_external: defaultdict[ExternalId, list[str]] = defaultdict(list)
        self.orphans_by_request: defaultdict[str, list[Orphan]] = defaultdict(list)
        self.orphans_by_external: defaultdict[ExternalId, list[Orphan]] = defaultdict(list)
        self.engines: dict[EngineKey, EngineState] = {}
        self.by_session: defaultdict[Session, set[str]] = defaultdict(set)
        self.orphans_by_session: defaultdict[Session, list[Orphan]] = defaultdict(list)
        self.waiting: dict[int, Orphan] = {}
        self.giving_up: list[tuple[int, int]] = []
        self.values: dict[ValueKey, Value] = {}
        self.parts: dict[PartKey, Part] = {}
        self.watermarks: dict[str, int] = {}
        self.last_seen: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self.quarantined: set[str] = set()

    def add_row(self, row: RequestRow) -> None:
        """A request, or what is newly known about it."""
        external = row.external_id
        if external is not None and row.request_id not in self.by_external[row.target, external]:
            self.by_external[row.target, external].append(row.request_id)
        if row.session_id is not None:
            self.by_session[row.target, row.session_id].add(row.request_id)
        self.rows[row.request_id] = row

    def add_orphan(self, orphan: Orphan) -> None:
        """Feedback that waits."""
        signal = orphan.signal
        if orphan.wait is not None:
            self.waiting[orphan.offset] = orphan
            heapq.heappush(self.giving_up, (orphan.wait.give_up_us, orphan.offset))
        elif signal.request_id is not None:
            self.orphans_by_request[signal.request_id].append(orphan)
        elif signal.external_id is not None:
            self.orphans_by_external[signal.target, signal.external_id].append(orphan)
        elif signal.session_id is not None:
            self.orphans_by_session[signal.target, signal.session_id].append(orphan)


class Change:
    """What one transaction will write."""

    def __init__(self) -> None:
        self.rows: dict[str, RequestRow] = {}
        self.seconds: list[SecondRow] = []
        self.outcomes: list[JoinedOutcome] = []
        self.values: dict[ValueKey, Value] = {}
        self.parts: dict[PartKey, Part] = {}
        self.orphans: dict[int, Orphan] = {}
        self.orphans_gone: list[int] = []
        self.seen: list[Event] = []
        self.dead: list[DeadLetter] = []
        self.engines: dict[EngineKey, EngineState] = {}
        self.watermarks: dict[str, int] = {}
        self.suspects: list[Suspect] = []
        self.tallies: defaultdict[WindowKey, Tally] = defaultdict(Tally)
        self.producers: defaultdict[str, ProducerCounts] = defaultdict(ProducerCounts)
        self.replaying: dict[int, DeadLetter] = {}
        self.letters_gone: list[int] = []
        self.ids_discarded: list[bytes] = []
        self.ids_freed: list[bytes] = []
        self.carried: Carried | None = None
        self.commands: list[CommandOutcome] = []
        self.quarantine: dict[str, Quarantined | None] = {}
        self.erasure: Erasure | None = None

    def count(self, event: Event, fate: Fate | None = None) -> None:
        """Count an event of a producer, or (``fate``) what became of one."""
        signal = event.signal
        counts = self.producers[signal.producer]
        of_kind = counts.kind(signal.kind)
        if fate is not None:
            setattr(of_kind, fate, getattr(of_kind, fate) + 1)
            return
        of_kind.events += 1
        if signal.time_us > counts.last_us:
            counts.last_us = signal.time_us
        if event.accepted_us > counts.accepted_us:
            counts.accepted_us = event.accepted_us
        if signal.data is None:
            # Records have their replica's clock, which is watched with the replica.
            counts.delays.add(event.accepted_us, signal.time_us, sketched=True)

    def bury(self, event: Event, reason: str, detail: str) -> None:
        """Make an event a dead letter; one that was replayed stays one, for this reason now."""
        signal = event.signal
        old = self.replaying.get(event.offset)
        noted = signal.data is not None and reason in _NUMBERS_NOTED
        own = noted or (signal.data is None and reason not in _IDS_OF_OTHERS)
        letter = DeadLetter(
            offset=event.offset,
            target=signal.target,
            producer=signal.producer,
            event_id=signal.id,
            reason=reason,
            detail=detail,
            accepted_us=event.accepted_us if old is None else old.accepted_us,
            body=event.body if old is None else old.body,
            attempts=0 if old is None else old.attempts + 1,
            owns_id=own or (old is not None and old.owns_id),
        )
        self.dead.append(letter)
        if old is None:
            self._count_dead(letter)

    def bury_again(self, letter: DeadLetter, reason: str, detail: str) -> None:
        """A letter whose replay failed before its event could be folded."""
        attempts = letter.attempts + 1
        self.dead.append(replace(letter, reason=reason, detail=detail, attempts=attempts))

    def bury_unread(self, letter: DeadLetter) -> None:
        """Keep an entry that can't be read or folded, and count it."""
        self.producers[letter.producer].kind(kind_of(letter)).events += 1
        self.dead.append(letter)
        self._count_dead(letter)

    def _count_dead(self, letter: DeadLetter) -> None:
        counts = self.producers[letter.producer]
        counts.kind(kind_of(letter)).dead += 1
        counts.dead[letter.reason] = counts.dead.get(letter.reason, 0) + 1

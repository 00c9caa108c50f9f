"""What the stage knew before a batch, and what the batch changes. In memory; no I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

from signals.events import Signal
from signals.features.batch import DeadLetter, EngineKey, Event, ExternalId
from signals.features.model import Outcome, RequestRow, SecondRow, WindowKey
from signals.features.sequences import Sequence
from signals.features.windows import Tally
from signals.settings import FeatureSettings, IntentSettings, MetricSettings, Slo

_DEFAULT_SLO = Slo()

Fate = Literal["joined", "orphaned", "duplicate", "dead"]


class FeatureRules(Struct, frozen=True, kw_only=True):
    """What is declared: target -> intent -> settings, metrics, and the stage's own settings."""

    intents: Mapping[str, Mapping[str, IntentSettings]]
    metrics: Mapping[str, MetricSettings]
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
    sequence: Sequence = field(default_factory=Sequence)


class Orphan(Struct, frozen=True, kw_only=True):
    """Feedback whose request is not known yet."""

    offset: int
    accepted_us: int
    signal: Signal


class JoinedOutcome(Struct, frozen=True, kw_only=True):
    """An outcome and the bus offset of the event that brought it."""

    offset: int
    outcome: Outcome


class Suspect(Struct, frozen=True):
    """Event time of a replica whose windows may have become complete or incomplete."""

    target: str
    replica: str
    from_us: int
    to_us: int


class ProducerCounts(Struct):
    """What became of a producer's events, and the time of its latest."""

    events: int = 0
    joined: int = 0
    orphaned: int = 0
    duplicate: int = 0
    dead: int = 0
    last_us: int = 0


class Known:
    """Everything that ``Needs`` asked for, kept up to date while the batch is folded."""

    def __init__(self) -> None:
        self.digests: dict[bytes, bytes] = {}
        self.rows: dict[str, RequestRow] = {}
        self.by_external: defaultdict[ExternalId, list[str]] = defaultdict(list)
        self.orphans_by_request: defaultdict[str, list[Orphan]] = defaultdict(list)
        self.orphans_by_external: defaultdict[ExternalId, list[Orphan]] = defaultdict(list)
        self.engines: dict[EngineKey, EngineState] = {}
        self.valued: set[tuple[str, str, str]] = set()
        self.watermarks: dict[str, int] = {}
        self.last_seen: defaultdict[str, dict[str, int]] = defaultdict(dict)

    def add_row(self, row: RequestRow) -> None:
        """A request, or what is newly known about it."""
        external = row.external_id
        if external is not None and row.request_id not in self.by_external[row.target, external]:
            self.by_external[row.target, external].append(row.request_id)
        self.rows[row.request_id] = row

    def add_orphan(self, orphan: Orphan) -> None:
        """Feedback that waits."""
        signal = orphan.signal
        if signal.request_id is not None:
            self.orphans_by_request[signal.request_id].append(orphan)
        elif signal.external_id is not None:
            self.orphans_by_external[signal.target, signal.external_id].append(orphan)


class Change:
    """What one transaction will write."""

    def __init__(self) -> None:
        self.rows: dict[str, RequestRow] = {}
        self.seconds: list[SecondRow] = []
        self.outcomes: list[JoinedOutcome] = []
        self.orphans: dict[int, Orphan] = {}
        self.orphans_gone: list[int] = []
        self.seen: list[Event] = []
        self.dead: list[DeadLetter] = []
        self.engines: dict[EngineKey, EngineState] = {}
        self.watermarks: dict[str, int] = {}
        self.suspects: list[Suspect] = []
        self.tallies: defaultdict[WindowKey, Tally] = defaultdict(Tally)
        self.producers: defaultdict[str, ProducerCounts] = defaultdict(ProducerCounts)

    def count(self, event: Event, fate: Fate | None = None) -> None:
        """Count an event of a producer, or (``fate``) what became of one."""
        counts = self.producers[event.signal.producer]
        if fate is None:
            counts.events += 1
            counts.last_us = max(counts.last_us, event.signal.time_us)
        else:
            setattr(counts, fate, getattr(counts, fate) + 1)

    def bury(self, event: Event, reason: str, detail: str) -> None:
        """Make an event a dead letter."""
        self.count(event, "dead")
        signal = event.signal
        self.dead.append(
            DeadLetter(
                offset=event.offset,
                target=signal.target,
                producer=signal.producer,
                event_id=signal.id,
                reason=reason,
                detail=detail,
                accepted_us=event.accepted_us,
                body=event.body,
            )
        )

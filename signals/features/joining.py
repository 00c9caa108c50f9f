"""Feedback to requests: each value is joined once, for ever, before or after its request.

::

    feedback ─► seen before? ─► its request known? ── yes ─► outcome + window it arrived in
                 │ same body:      │ no, or it names a session
                 │  duplicate      └─► orphan, until the request is known or ``orphan_s`` is over
                 └ other body: dead letter ``conflict``
"""

from __future__ import annotations

from msgspec import Struct

from signals.codec import encode
from signals.definitions import Definition
from signals.events import MICROS, Signal
from signals.features.batch import DIGEST_BYTES, Event
from signals.features.change import Change, FeatureRules, JoinedOutcome, Known, Orphan, Value
from signals.features.combining import combined
from signals.features.correlate import nearest, wait_of
from signals.features.model import ATOM_S, Outcome, RequestRow, WindowKey
from signals.features.seen import is_discarded
from signals.features.windows import start_of
from signals.settings import MetricSettings

_CONFLICTS = (
    "the id was used before with another body",
    "this model gave the request another score before",
)


class Join(Struct, frozen=True):
    """The parts that joining works with."""

    known: Known
    change: Change
    rules: FeatureRules

    def feedback(self, event: Event) -> None:
        """Take one business or semantic event."""
        if not self.is_new(event):
            return
        if event.signal.producer in self.known.quarantined:
            self.change.bury(event, "quarantined", "its producer was in quarantine")
            return
        row = self._request_of(event.signal)
        if row is None:
            self._wait(event)
            return
        self._outcome(event, row)
        self.request_appeared(row)

    def request_appeared(self, row: RequestRow) -> None:
        """Join what was waiting for this request.

        Asked whenever a request is spoken of: its second record may tell an id that feedback waits
        for, and of very much feedback, ``ORPHAN_MATCHES`` are looked up each time.
        """
        waiting = self.known.orphans_by_request.pop(row.request_id, [])
        if row.external_id is not None:
            external = (row.target, row.external_id)
            waiting = [*waiting, *self.known.orphans_by_external.pop(external, [])]
        if row.session_id is not None:
            waiting = [*waiting, *self._left_by_session(row, row.session_id)]
        for orphan in waiting:
            self.take(orphan, row)

    def take(self, orphan: Orphan, row: RequestRow) -> None:
        """Join an orphan to its request."""
        self.change.orphans.pop(orphan.offset, None)
        self.change.orphans_gone.append(orphan.offset)
        self._outcome(event_of(orphan), row)

    def _wait(self, event: Event) -> None:
        signal = event.signal
        by_session = signal.request_id is None and signal.external_id is None
        settings = self.rules.settings
        orphan = Orphan(
            offset=event.offset,
            accepted_us=event.accepted_us,
            signal=signal,
            wait=wait_of(signal.time_us, event.accepted_us, settings) if by_session else None,
        )
        self.change.orphans[event.offset] = orphan
        self.known.add_orphan(orphan)
        if not by_session:
            self.change.count(event, "orphaned")

    def _left_by_session(self, row: RequestRow, session_id: str) -> list[Orphan]:
        """Events of its session that found no request before them, and now do."""
        orphans = self.known.orphans_by_session.get((row.target, session_id), [])
        found = [each for each in orphans if row.arrival_us <= each.signal.time_us]
        for orphan in found:
            orphans.remove(orphan)
        return found

    def is_new(self, event: Event) -> bool:
        """Whether no such event came before; what is not new is counted or buried here.

        A replayed letter that was new when it came is new. One in ``conflict`` becomes new once
        the first of its id was discarded: what that said was never counted.
        """
        old = self.change.replaying.get(event.offset)
        if old is not None and old.owns_id:
            return True
        sightings = event.sightings
        freed = []
        for (identity, digest), detail in zip(sightings, _CONFLICTS, strict=False):
            before = self.known.digests.get(identity)
            if before is None:
                continue
            if old is not None and is_discarded(before):
                freed.append(identity)
                continue
            if before[:DIGEST_BYTES] == digest:
                self.change.count(event, "duplicate")
            else:
                self.change.bury(event, "conflict", detail)
            return False
        self.change.ids_freed.extend(freed)
        self.known.digests.update(sightings)
        self.change.seen.append(event)
        return True

    def _request_of(self, signal: Signal) -> RequestRow | None:
        """By id or external id; None: not known yet, or a session's, which has to wait."""
        rows = self.known.rows
        if signal.request_id is not None:
            return rows.get(signal.request_id)
        if signal.external_id is None:
            return None
        found = self.known.by_external.get((signal.target, signal.external_id), [])
        return nearest((rows[id_] for id_ in found), signal.time_us)

    def _outcome(self, event: Event, row: RequestRow) -> None:
        signal = event.signal
        definition = self._definition(signal)
        if definition is None or signal.value is None:
            self.change.bury(event, "undeclared_metric", self._why_undefined(signal))
            return
        metric = definition.metric
        if signal.time_us - row.arrival_us > metric.attribution_s * MICROS:
            detail = f"more than {metric.attribution_s} s after its request"
            self.change.bury(event, "outside_attribution", detail)
            return
        outcome = Outcome(
            request_id=row.request_id,
            metric=signal.name,
            value=signal.value,
            time_us=signal.time_us,
            producer=signal.producer,
            event_id=signal.id,
            definition=definition.version,
            model=signal.model,
            intent=row.intent,
            digest=row.digest,
            trial=row.trial,
            block=row.block,
            arm=row.arm,
            policies=row.policies,
        )
        self.change.outcomes.append(JoinedOutcome(offset=event.offset, outcome=outcome))
        self.change.count(event, "joined")
        self._window(outcome, row, metric)

    def _definition(self, signal: Signal) -> Definition | None:
        """The version the event was accepted under; None: it is not there (any more).

        Raises ``Unavailable`` when that can't be asked now.
        """
        definitions = self.rules.definitions
        current = definitions.current().get(signal.name)
        if signal.definition is None or (current and current.version == signal.definition):
            return current
        return definitions.version(signal.name, signal.definition)

    def _why_undefined(self, signal: Signal) -> str:
        """A version that ingest read and that is gone comes of a store that was put back to an
        older copy. It may never come again, so the event is kept for a replay and not waited for.
        """
        if signal.name not in self.rules.definitions.current():
            return f"{signal.name} is not declared any more"
        return f"version {signal.definition} of {signal.name} is not there"

    def _window(self, outcome: Outcome, row: RequestRow, metric: MetricSettings) -> None:
        """Correct what the window that the request arrived in says of this producer's values."""
        key = (outcome.request_id, outcome.metric, outcome.producer)
        before = self.known.values.get(key)
        said = Value(
            micros=round(outcome.value * MICROS),
            low=round(metric.low * MICROS),
            high=round(metric.high * MICROS),
            time_us=outcome.time_us,
            event_id=outcome.event_id,
            arrival_us=row.arrival_us,
        )
        after = combined(before, said, metric.type)
        if after == before:
            return
        self.known.values[key] = self.change.values[key] = after
        self.change.tallies[atom_of_row(row, row.arrival_us)].outcome(
            outcome.metric,
            outcome.producer,
            requests=before is None,
            micros=after.counted - (before.counted if before is not None else 0),
        )


def atom_of_row(row: RequestRow, at_us: int) -> WindowKey:
    """The 5 s window of something that happened to a request: under the stamp it arrived under."""
    return WindowKey(
        target=row.target,
        replica=row.replica,
        intent=row.intent,
        digest=row.digest,
        trial=row.trial,
        block=row.block,
        start_us=start_of(at_us, ATOM_S),
        width_s=ATOM_S,
    )


def event_of(orphan: Orphan) -> Event:
    """The event again; it was found new when it came."""
    body = encode(orphan.signal)
    return Event(
        offset=orphan.offset,
        accepted_us=orphan.accepted_us,
        signal=orphan.signal,
        body=body,
    )

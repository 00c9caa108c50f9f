"""Feedback to requests: each value is joined once, for ever, before or after its request.

::

    feedback ─► seen before? ─► its request known? ── yes ─► outcome + window
                 │ same body:      │ no
                 │  duplicate      └─► orphan, until the request arrives or ``orphan_s`` is over
                 └ other body: dead letter ``conflict``
"""

from __future__ import annotations

from msgspec import Struct

from signals.codec import encode
from signals.events import MICROS, Signal
from signals.features.batch import DIGEST_BYTES, Event
from signals.features.change import Change, FeatureRules, JoinedOutcome, Known, Orphan
from signals.features.model import ATOM_S, Outcome, RequestRow, WindowKey
from signals.features.seen import is_discarded
from signals.features.windows import start_of


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
        if row is not None:
            self._outcome(event, row)
            return
        orphan = Orphan(offset=event.offset, accepted_us=event.accepted_us, signal=event.signal)
        self.change.orphans[event.offset] = orphan
        self.known.add_orphan(orphan)
        self.change.count(event, "orphaned")

    def request_appeared(self, row: RequestRow) -> None:
        """Join what was waiting for this request."""
        waiting = self.known.orphans_by_request.pop(row.request_id, [])
        if row.external_id is not None:
            external = (row.target, row.external_id)
            waiting = [*waiting, *self.known.orphans_by_external.pop(external, [])]
        for orphan in waiting:
            if self.change.orphans.pop(orphan.offset, None) is None:
                self.change.orphans_gone.append(orphan.offset)
            self._outcome(_event_of(orphan), row)

    def is_new(self, event: Event) -> bool:
        """Whether no event of this id came before; what is not new is counted or buried here.

        A replayed letter that was new when it came is new. One in ``conflict`` becomes new once
        the first of its id was discarded: what that said was never counted.
        """
        identity = event.identity
        old = self.change.replaying.get(event.offset)
        before = self.known.digests.get(identity)
        if old is not None and old.owns_id:
            return True
        if old is not None and before is not None and is_discarded(before):
            self.change.ids_freed.append(identity)
            before = None
        if before is None:
            self.known.digests[identity] = event.digest
            self.change.seen.append(event)
            return True
        if before[:DIGEST_BYTES] == event.digest:
            self.change.count(event, "duplicate")
        else:
            self.change.bury(event, "conflict", "the id was used before with another body")
        return False

    def _request_of(self, signal: Signal) -> RequestRow | None:
        """By id; by external id the latest that had arrived then, else the earliest there is."""
        rows = self.known.rows
        if signal.request_id is not None:
            return rows.get(signal.request_id)
        if signal.external_id is None:
            return None
        found = self.known.by_external.get((signal.target, signal.external_id), [])
        by_arrival = sorted(
            (rows[id_] for id_ in found), key=lambda r: (r.arrival_us, r.request_id)
        )
        before = [row for row in by_arrival if row.arrival_us <= signal.time_us]
        return before[-1] if before else next(iter(by_arrival), None)

    def _outcome(self, event: Event, row: RequestRow) -> None:
        signal = event.signal
        metric = self.rules.metrics.get(signal.name)
        if metric is None or signal.value is None:
            self.change.bury(event, "undeclared_metric", f"{signal.name} is not declared any more")
            return
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
        )
        self.change.outcomes.append(JoinedOutcome(offset=event.offset, outcome=outcome))
        self.change.count(event, "joined")
        self._window(outcome, row)

    def _window(self, outcome: Outcome, row: RequestRow) -> None:
        valued = (outcome.request_id, outcome.metric, outcome.producer)
        first = valued not in self.known.valued
        self.known.valued.add(valued)
        tally = self.change.tallies[atom_of_row(row, row.arrival_us)]
        tally.outcome(
            outcome.metric, outcome.producer, requests=first, micros=round(outcome.value * MICROS)
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


def _event_of(orphan: Orphan) -> Event:
    """The event again; it was found new when it came."""
    body = encode(orphan.signal)
    return Event(
        offset=orphan.offset,
        accepted_us=orphan.accepted_us,
        signal=orphan.signal,
        digest=b"",
        body=body,
    )

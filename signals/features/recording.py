"""An engine's records into request rows, seconds, engine states and windows."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from signals.events import Arrived, Counted, Finished, Named, Record, Second, Started
from signals.features.batch import Event
from signals.features.change import (
    Change,
    EngineState,
    FeatureRules,
    Known,
    Part,
    PartKey,
)
from signals.features.joining import Join, atom_of_row
from signals.features.keeping import oldest_us
from signals.features.model import ATOM_S, RequestRow
from signals.features.requests import (
    judge,
    judged,
    row_of_arrival,
    row_of_end,
    row_of_named,
    with_ids,
)
from signals.features.seconds import row_of_second
from signals.features.windows import atom_of, loads
from signals.records import event_time_us


class Recording(Struct, frozen=True):
    """The parts that recording works with."""

    known: Known
    change: Change
    rules: FeatureRules
    join: Join

    def record(self, event: Event, record: Record) -> None:
        """Take one engine record, once."""
        if not self._is_new(event, record):
            return
        match record:
            case Second():
                self._second(record)
            case Arrived() | Finished():
                self.request(record)
            case Started():
                self._started(record)
            case Counted():
                self._counted(event, record)
            case Named():
                self._named(record)

    def request(self, record: Arrived | Finished) -> None:
        """Take what an engine says of one request."""
        if isinstance(record, Arrived):
            self._arrived(record)
        else:
            self._finished(record)

    def settle(self, row: RequestRow, *, watermark_us: int) -> RequestRow:
        """Judge a request as far as it can be; corrects the windows when the judgement changed."""
        before = judged(row)
        slo = self.rules.slo(row.target, row.intent)
        after = judge(row, slo, watermark_us=watermark_us)
        if after is None or after == before:
            return row
        return self._judge_anew(row, row, watermark_us=watermark_us)

    def _is_new(self, event: Event, record: Record) -> bool:
        """Whether its number never came before; a replayed letter's may have come with it."""
        old = self.change.replaying.get(event.offset)
        if old is not None and old.owns_id:
            return True
        engine = self._engine(record)
        at_us = event_time_us(record)
        engine.first_us, engine.last_us = min(engine.first_us, at_us), max(engine.last_us, at_us)
        engine.delays.add(event.accepted_us, at_us, sketched=False)
        limit = self.rules.settings.sequence_ranges
        novelty = engine.sequence.add(record.seq, at_us, limit=limit)
        if novelty == "duplicate":
            self.change.count(event, "duplicate")
        elif novelty == "forgotten":
            detail = f"record {record.seq} came after {limit} gaps in its engine's sequence"
            self.change.bury(event, "sequence_forgotten", detail)
        return novelty == "new"

    def _engine(self, record: Record) -> EngineState:
        stamp = record.stamp
        key = (stamp.target, stamp.replica, stamp.incarnation)
        engine = self.known.engines.get(key)
        if engine is None:
            at_us = event_time_us(record)
            engine = EngineState(
                target=stamp.target,
                replica=stamp.replica,
                incarnation=stamp.incarnation,
                first_us=at_us,
                last_us=at_us,
            )
            self.known.engines[key] = engine
        self.change.engines[key] = engine
        return engine

    def _started(self, record: Started) -> None:
        engine = self._engine(record)
        engine.fingerprint = record.fingerprint
        engine.curve = tuple((point.decode, point.prefill, point.step_us) for point in record.curve)
        engine.kv = record.kv

    def _second(self, record: Second) -> None:
        engine = self._engine(record)
        engine.dropped = max(engine.dropped, record.dropped)
        self.change.seconds.append(row_of_second(record))
        last_moment_us = max(record.from_us, record.to_us - 1)
        for intent, load in loads(record, self.rules.declared(record.stamp.target)).items():
            tally = self.change.tallies[atom_of(record.stamp, intent, last_moment_us)]
            tally.load(record, load)

    def _counted(self, event: Event, record: Counted) -> None:
        """A source's revision of a window takes the place of its last one."""
        window = atom_of(record.stamp, record.intent, record.start_us)
        if record.start_us < self._oldest_us(window.target):
            self.change.bury(event, "window_forgotten", "its window is not kept any more")
            return
        key = PartKey(source=record.source, window=window)
        before = self.known.parts.get(key)
        if before is not None and before.revision >= record.revision:
            if before.revision == record.revision and before.counts != record.counts:
                detail = f"revision {record.revision} was something else before"
                self.change.bury(event, "conflict", detail)
            return
        tally = self.change.tallies[window]
        if before is not None:
            tally.retract(before.counts)
        tally.merge(record.counts)
        part = Part(revision=record.revision, counts=record.counts)
        self.known.parts[key] = self.change.parts[key] = part

    def _oldest_us(self, target: str) -> int:
        watermark_us = self.known.watermarks.get(target, 0)
        return oldest_us(ATOM_S, watermark_us=watermark_us, settings=self.rules.settings)

    def _named(self, record: Named) -> None:
        """Requests that were counted at the edge, so they only wait for feedback here."""
        for request in record.requests:
            if request.request_id not in self.known.rows:
                row = row_of_named(record.stamp, request)
                self._keep(row)
                self.join.request_appeared(row)

    def _arrived(self, record: Arrived) -> None:
        before = self.known.rows.get(record.request_id)
        if before is not None:
            row = with_ids(before, record)
            self._keep(row)
            self.join.request_appeared(row)
            return
        row = row_of_arrival(record, self.rules.slo(record.stamp.target, record.intent))
        self._keep(row)
        self._appeared(row)

    def _finished(self, record: Finished) -> None:
        before = self.known.rows.get(record.request_id)
        if before is not None and before.finished_us is not None:
            return
        row = row_of_end(record, before, self.rules.slo(record.stamp.target, record.intent))
        self.change.tallies[atom_of_row(row, record.finished_us)].finished(record)
        row = self._judge_anew(before, row, watermark_us=record.finished_us)
        if before is None:
            self._appeared(row)
        else:
            self.join.request_appeared(row)

    def _appeared(self, row: RequestRow) -> None:
        """A request is known: it counts where it arrived, and feedback may be waiting for it."""
        self.change.tallies[atom_of_row(row, row.arrival_us)].arrived()
        self.join.request_appeared(row)

    def _judge_anew(
        self, before: RequestRow | None, row: RequestRow, *, watermark_us: int
    ) -> RequestRow:
        """Replace the judgement that ``before`` carried by that of ``row``, in row and windows."""
        old = judged(before) if before is not None else None
        slo = self.rules.slo(row.target, row.intent)
        new = judge(row, slo, watermark_us=watermark_us)
        if old is not None and old != new:
            self.change.tallies[atom_of_row(row, old.at_us)].judged(
                old.good, row.output_tokens, sign=-1
            )
        if new is not None and old != new:
            self.change.tallies[atom_of_row(row, new.at_us)].judged(new.good, row.output_tokens)
        row = msgspec.structs.replace(row, good=new.good if new is not None else None)
        self._keep(row)
        return row

    def _keep(self, row: RequestRow) -> None:
        self.known.add_row(row)
        self.change.rows[row.request_id] = row

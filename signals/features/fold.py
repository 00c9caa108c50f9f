"""One batch folded into a change: records, joins, judgements, watermarks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from signals.events import MICROS
from signals.features.batch import Batch
from signals.features.change import Change, EngineState, FeatureRules, Known, Suspect
from signals.features.commands import Obedience, conclude
from signals.features.joining import Join
from signals.features.model import RequestRow
from signals.features.recording import Recording
from signals.features.sequences import Hole
from signals.features.sessions import Sessions


def fold(batch: Batch, known: Known, rules: FeatureRules) -> Change:
    """Take every event of the batch, in order; ``known`` must hold what ``needs(batch)`` asks."""
    change = Change()
    for letter in batch.dead:
        change.bury_unread(letter)
    holes = {key: engine.sequence.holes() for key, engine in known.engines.items()}
    ends = {key: engine.last_us for key, engine in known.engines.items()}
    recording = _recording(known, change, rules)
    sessions = Sessions(known, change, recording.join)
    for event in batch.events:
        sessions.give_up(event.accepted_us)
        change.count(event)
        record = event.signal.data
        if event.signal.kind == "command":
            Obedience(recording, batch.summoned).take(event)
        elif record is not None:
            recording.record(event, record)
        else:
            recording.join.feedback(event)
    for key, engine in sorted(change.engines.items()):
        change.suspects.extend(_gaps_changed(engine, holes.get(key, []), ends.get(key), known))
    change.watermarks = _watermarks(known, change, lateness_s=rules.settings.lateness_s)
    return change


def settle_due(
    due: Iterable[RequestRow], known: Known, change: Change, rules: FeatureRules
) -> None:
    """Judge the requests that the watermarks have overtaken, and bind the events of sessions:
    stored ones, and the batch's own. After this, nothing changes any more."""
    recording = _recording(known, change, rules)
    Sessions(known, change, recording.join).pass_time({**known.watermarks, **change.watermarks})
    rows = {row.request_id: row for row in due} | change.rows
    for row in rows.values():
        known.rows.setdefault(row.request_id, row)
        watermark_us = change.watermarks.get(row.target, 0)
        if row.good is None and watermark_us:
            recording.settle(row, watermark_us=watermark_us)
    conclude(change)


def _recording(known: Known, change: Change, rules: FeatureRules) -> Recording:
    return Recording(known, change, rules, Join(known, change, rules))


def _gaps_changed(
    engine: EngineState, before: Sequence[Hole], last_us: int | None, known: Known
) -> list[Suspect]:
    """Where windows of the replica may have gained or lost a gap."""
    spans = [(hole.from_us, hole.to_us) for hole in {*before} ^ {*engine.sequence.holes()}]
    seen_us = known.last_seen[engine.target].get(engine.replica)
    if last_us is None and seen_us is not None:
        spans.append((min(seen_us, engine.first_us), max(seen_us, engine.first_us)))
    elif last_us is not None and seen_us is not None and last_us < engine.last_us <= seen_us:
        spans.append((last_us, engine.last_us))
    return [Suspect(engine.target, engine.replica, *span) for span in sorted(spans)]


def _watermarks(known: Known, change: Change, *, lateness_s: int) -> dict[str, int]:
    """Per target that reported: the time up to which all of its live replicas have.

    A replica that is ``lateness_s`` behind the foremost is taken for dead and waited for no longer.
    """
    for engine in change.engines.values():
        seen = known.last_seen[engine.target]
        seen[engine.replica] = max(seen.get(engine.replica, 0), engine.last_us)
    found = {}
    for target in sorted({engine.target for engine in change.engines.values()}):
        foremost_us = max(known.last_seen[target].values())
        live = [
            us for us in known.last_seen[target].values() if us >= foremost_us - lateness_s * MICROS
        ]
        found[target] = max(known.watermarks.get(target, 0), min(live))
    return found

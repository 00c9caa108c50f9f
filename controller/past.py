"""What each replica had, from when until when: segments, made from its read-backs and its log.

::

    read-back n                          read-back n+1
        │  line 7   line 8   line 9           │
    ────┼────●────────●────────●──────────────┼──►   engine time
        │    v 4      law      v 5            │
        └────┴─────────────────┴──────────────┘
             segment v 4       segment v 5

The engine's log says of every line what its place has after it, so what happened while nobody
looked is there at its own time. A law's moves make no segment: the law is the setting. Where the
log has a hole, or the engine died and nobody saw its last moments, the time between is ``unknown``.

Whatever the log says is held against what the engine shows: where the two differ nobody can say
what was in force since the last read-back, and nobody pretends to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import msgspec
from msgspec import Struct

from policies.in_force import InForce, Segment
from policies.runtime_config import Change, ObservedSetting, RuntimeConfig, TrialStamp
from policies.session_split import same_split
from policies.settings import place
from signals.events import MICROS

RESTARTED: Final = "restarted; nobody saw what it had at the end"
FORGOTTEN: Final = "its change log had forgotten lines that were never read"
DISAGREES: Final = "its change log does not lead to what it shows"


class ReplicaPast(Struct, frozen=True, kw_only=True):
    """How far one replica's past is recorded, and what it had then.

    ``seq``: the last line of its log that was taken in. ``read_us``: until then (its time) it is
    known that nothing else happened. ``from_us``: where the last segment begins. ``settings``: by
    place; None where the log that is left doesn't say. ``candidate``: by place, of a split's.
    """

    incarnation: str
    seq: int = -1
    version: int = 0
    digest: str = ""
    read_us: int = 0
    from_us: int = 0
    hold: bool = False
    trial: TrialStamp | None = None
    settings: dict[str, InForce | None] = {}
    candidate: dict[str, InForce] = {}


def record(last: ReplicaPast | None, seen: RuntimeConfig) -> tuple[ReplicaPast, list[Segment]]:
    """Take in one read-back: the new state, and the segments that follow from it, in order.

    Lines that were not fetched yet, but still can be, wait for the next read-back.
    """
    if last is None or last.incarnation != seen.incarnation:
        return _anew(last, seen, why=RESTARTED)
    if seen.version < last.version:
        return last, []
    lines = [line for line in seen.changes if line.seq > last.seq]
    ready = _joined(lines, after=last.seq)
    missing = ready[-1].seq + 1 if ready else last.seq + 1
    waits = len(ready) < len(lines)
    if missing < seen.log_from or (waits and not ready and lines[0] is seen.changes[0]):
        return _anew(last, seen, why=FORGOTTEN)
    past, segments = _replayed(last, ready, seen, emitted=True)
    if waits:
        return past, segments
    if not _agrees(past, seen):
        return _shown(last, seen, why=DISAGREES)
    return _read(past, seen), segments


def due(
    past: Mapping[str, ReplicaPast], noted: Mapping[str, ReplicaPast], *, every_us: int
) -> bool:
    """Whether the store should hear again until when the replicas' pasts are known."""
    return any(
        name not in noted or one.read_us - noted[name].read_us >= every_us
        for name, one in past.items()
    )


def _anew(
    last: ReplicaPast | None, seen: RuntimeConfig, *, why: str
) -> tuple[ReplicaPast, list[Segment]]:
    """Begin with the log that is left; between the last read-back and its beginning: unknown."""
    lines = _last_run(seen.changes)
    if not lines:
        return _shown(last, seen, why=why)
    floor_us = 0 if last is None else last.read_us
    start = ReplicaPast(
        incarnation=seen.incarnation,
        seq=lines[0].seq - 1,
        version=-1,
        from_us=floor_us,
        read_us=floor_us,
        hold=_held_before(lines, seen),
        trial=lines[0].trial,
        settings=_before(lines, seen),
    )
    past, segments = _replayed(start, lines, seen, emitted=False)
    if not _agrees(past, seen):
        return _shown(last, seen, why=why)
    hole = [] if last is None else _hole(seen, last.read_us, segments[0].from_us, why)
    if hole and not segments[0].known:
        segments = segments[1:]
    if last is None and not segments[0].known:
        segments = segments[1:]
    return _read(past, seen), [*hole, *segments]


def _shown(
    last: ReplicaPast | None, seen: RuntimeConfig, *, why: str
) -> tuple[ReplicaPast, list[Segment]]:
    """What the engine shows now, and unknown since the last read-back."""
    floor_us = 0 if last is None else last.read_us
    past = ReplicaPast(
        incarnation=seen.incarnation,
        seq=max((line.seq for line in seen.changes), default=-1),
        version=seen.version,
        digest=seen.digest,
        read_us=max(floor_us, _us(seen.engine_time)),
        from_us=max(floor_us, _us(seen.engine_time)),
        hold=seen.hold,
        trial=seen.trial,
        settings=dict[str, InForce | None](_by_place(seen.settings)),
        candidate=_by_place(seen.candidate),
    )
    hole = [] if last is None else _hole(seen, last.read_us, past.from_us, why)
    return past, [*hole, _segment(past, seen, cause="read back", change_id=None)]


def _hole(seen: RuntimeConfig, from_us: int, until_us: int, why: str) -> list[Segment]:
    if until_us <= from_us:
        return []
    return [
        Segment(target=seen.target, replica=seen.replica, from_us=from_us, known=False, cause=why)
    ]


# -- the log, line by line -----------------------------------------------------------------------


def _replayed(
    past: ReplicaPast, lines: Sequence[Change], seen: RuntimeConfig, *, emitted: bool
) -> tuple[ReplicaPast, list[Segment]]:
    """Each change of settings begins a segment. ``emitted`` False: the first line does too."""
    segments: list[Segment] = []
    for (_, by_law), together in groupby(lines, key=lambda x: (x.version, x.cause == "law")):
        run = list(together)
        if by_law and emitted:
            past = _moved(past, run)
            continue
        first, rest = (run[:1], run[1:]) if by_law else (run, [])
        past = _moved(past, first)
        segment = _segment(past, seen, cause=_cause(first), change_id=run[0].change_id)
        if segment.known or not segments or segments[-1].known:
            segments.append(segment)
        past, emitted = _moved(past, rest), True
    return past, segments


def _moved(past: ReplicaPast, run: Sequence[Change]) -> ReplicaPast:
    """After some lines of one version that happened together."""
    if not run:
        return past
    settings, hold = dict(past.settings), past.hold
    candidate = dict(past.candidate) if _keeps(past, run) else {}
    for line in run:
        if line.cause in ("hold", "release"):
            hold = line.cause == "hold"
        elif line.knob is not None and line.arm is not None:
            _put(candidate, line, place(line.knob, line.scope))
        elif line.knob is not None:
            _put(settings, line, place(line.knob, line.scope))
    at_us = max(past.read_us, _us(run[0].at))
    by_law = run[0].cause == "law" and past.version == run[0].version
    return msgspec.structs.replace(
        past,
        seq=run[-1].seq,
        version=run[-1].version,
        digest=run[-1].digest,
        read_us=at_us,
        from_us=past.from_us if by_law else at_us,
        hold=hold,
        trial=run[-1].trial,
        settings=settings,
        candidate=candidate,
    )


def _put(settings: dict[str, Any], line: Change, at: str) -> None:
    """What a line says that its place has after it; nothing: none of its own."""
    if line.after is None:
        settings.pop(at, None)
    else:
        settings[at] = InForce(value=line.after, law=line.law, policy_id=line.holder)


def _keeps(past: ReplicaPast, run: Sequence[Change]) -> bool:
    """Whether what the candidate's sessions have outlives these lines: a law's move, or the same
    split."""
    by_law = run[0].cause == "law" and past.version == run[0].version
    return by_law or same_split(past.trial, run[-1].trial)


def _segment(
    past: ReplicaPast, seen: RuntimeConfig, *, cause: str, change_id: str | None
) -> Segment:
    settings = {at: one for at, one in sorted(past.settings.items()) if one is not None}
    if len(settings) < len(past.settings):
        return Segment(
            target=seen.target,
            replica=seen.replica,
            from_us=past.from_us,
            known=False,
            cause=FORGOTTEN,
        )
    return Segment(
        target=seen.target,
        replica=seen.replica,
        from_us=past.from_us,
        incarnation=past.incarnation,
        version=past.version,
        digest=past.digest,
        cause=cause,
        change_id=change_id,
        hold=past.hold,
        trial=past.trial,
        settings=settings,
        candidate=dict(sorted(past.candidate.items())),
    )


def _cause(run: Sequence[Change]) -> str:
    """Of a patch that only held or released: that."""
    switches = [line.cause for line in run if line.cause in ("hold", "release")]
    plain = any(line.knob is not None for line in run)
    return switches[0] if switches and not plain else run[0].cause


def _joined(lines: Sequence[Change], *, after: int) -> list[Change]:
    """The lines that follow on ``after`` without a gap."""
    ready: list[Change] = []
    for line in lines:
        if line.seq != after + 1:
            break
        ready.append(line)
        after = line.seq
    return ready


def _last_run(lines: Sequence[Change]) -> list[Change]:
    """The newest lines, back to the first gap."""
    run: list[Change] = []
    for line in reversed(lines):
        if run and line.seq != run[-1].seq - 1:
            break
        run.append(line)
    return run[::-1]


def _before(lines: Sequence[Change], seen: RuntimeConfig) -> dict[str, InForce | None]:
    """What can be said of the time before some lines: what no line touches is as it is now.

    A line without ``before`` is the first of its place: there was nothing.
    """
    first: dict[str, Change] = {}
    settled: dict[str, Change] = {}
    for line in lines:
        if line.knob is not None and line.arm is None:
            at = place(line.knob, line.scope)
            first.setdefault(at, line)
            if line.cause != "law":
                settled.setdefault(at, line)
    before: dict[str, InForce | None] = {at: None for at in settled if first[at].before is not None}
    for at, now in _by_place(seen.settings).items():
        if at not in settled:
            began = first[at].before if at in first else None
            value = now.value if began is None else began
            before[at] = msgspec.structs.replace(now, value=value)
    return before


def _held_before(lines: Iterable[Change], seen: RuntimeConfig) -> bool:
    switches = [line.cause for line in lines if line.cause in ("hold", "release")]
    return seen.hold if not switches else switches[0] == "release"


# -- against what is shown -----------------------------------------------------------------------


def _by_place(shown: Iterable[ObservedSetting]) -> dict[str, InForce]:
    return {
        place(s.knob, s.scope): InForce(value=s.value, law=s.law, policy_id=s.policy_id)
        for s in shown
    }


def _agrees(past: ReplicaPast, seen: RuntimeConfig) -> bool:
    """Whether the log led to what the engine shows. Where a law stands is its own business."""
    mine = (past.version, past.hold, past.trial)
    if mine != (seen.version, seen.hold, seen.trial):
        return False
    return _alike(past.settings, _by_place(seen.settings)) and _alike(
        past.candidate, _by_place(seen.candidate)
    )


def _alike(mine: Mapping[str, InForce | None], shown: Mapping[str, InForce]) -> bool:
    return mine.keys() == shown.keys() and all(
        one is not None
        and (one.law, one.policy_id) == (now.law, now.policy_id)
        and (now.law is not None or one.value == now.value)
        for one, now in ((mine[at], now) for at, now in shown.items())
    )


def _read(past: ReplicaPast, seen: RuntimeConfig) -> ReplicaPast:
    read_us = max(past.read_us, _us(seen.engine_time))
    return msgspec.structs.replace(past, read_us=read_us)


def _us(at_s: float) -> int:
    return round(at_s * MICROS)

"""What drift is told from: one block of event time, what its requests were like, and their load.

::

    windows ──► mean log TTFT and TPOT of each intent ──┐
    seconds ──► arrivals, offered tokens, length mix ───┴─► one block of one settings digest

Only what ran without a candidate counts: outside trials, in a holdback's blocks (what they put in
force has a digest of its own), and on a trial's baseline arm once its washout is over. What a
candidate does is for its judge, and is not the engine's drift. A block is of the digest that most
of its time ran under: another digest is another engine to the watch.

Context is exogenous: what came, never what queued. A mean of logs, because one slow request in a
hundred moves a mean of seconds as much as all the others together.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct

from controller.holdback.drawing import is_holdback
from controller.judge.carry_over import plan_in_force
from controller.trials import Trial, arm_of
from signals.events import MICROS
from signals.features import sketch
from signals.features.model import Moments, SecondRow, WindowRevision

COVERED_SHARE = 1 / 3
"""Of a block's time that one replica at least has reported under the digest, or it says nothing."""


class DriftBlock(Struct, frozen=True, kw_only=True):
    """One block up to ``to_us``. ``figures``: name -> mean log of µs; ``context``: by intent.

    ``digest`` empty: nothing that could be compared ran in it.
    """

    to_us: int
    digest: str = ""
    figures: dict[str, float] = {}
    context: dict[str, tuple[float, ...]] = {}


def block_of(
    windows: Iterable[WindowRevision],
    seconds: Iterable[SecondRow],
    *,
    trial: Trial | None,
    intents: Sequence[str],
    from_us: int,
    to_us: int,
    min_requests: int,
) -> DriftBlock:
    """The block (from, to] of one target. ``trial``: the one that runs, whose arms are known."""
    told = [one for one in seconds if _counts(trial, one.trial, one.block, one.replica, one.to_us)]
    covered_us: defaultdict[str, int] = defaultdict(int)
    for second in told:
        covered_us[second.digest] += second.to_us - second.from_us
    if not covered_us:
        return DriftBlock(to_us=to_us)
    most_us, digest = max((us, digest) for digest, us in covered_us.items())
    mine = [
        one
        for one in windows
        if from_us <= one.key.start_us < to_us
        and one.key.digest == digest
        and _counts(trial, one.key.trial, one.key.block, one.key.replica, one.key.start_us)
    ]
    if most_us < COVERED_SHARE * (to_us - from_us) or any(one.incomplete for one in mine):
        return DriftBlock(to_us=to_us)
    figures = _figures(mine, intents, min_requests)
    load = [second for second in told if second.digest == digest]
    return DriftBlock(
        to_us=to_us,
        digest=digest,
        figures=figures,
        context={name: _context(load, name, most_us / MICROS) for name in intents},
    )


def _counts(trial: Trial | None, trial_id: str, block: int, replica: str, at_us: int) -> bool:
    """Whether what ran there then was the baseline, and nothing of a candidate was left."""
    if not trial_id or is_holdback(trial_id):
        return True
    if trial is None or trial.plan.id != trial_id:
        return False
    for unit in trial.units:
        for one in unit.blocks:
            if one.index == block:
                washed_us = plan_in_force(trial, unit.index).washout_s * MICROS
                begun = one.began_us is not None and at_us >= one.began_us + washed_us
                return begun and arm_of(trial.plan, one, replica) == "baseline"
    return False


def _figures(
    windows: Sequence[WindowRevision], intents: Sequence[str], least: int
) -> dict[str, float]:
    found = {}
    for intent in intents:
        mine = [one.counts for one in windows if one.key.intent == intent]
        for name in ("ttft", "tpot"):
            mean = _mean_log([getattr(counts, name) for counts in mine], least)
            if mean is not None:
                found[f"{name}:{intent}"] = mean
    return found


def _mean_log(moments: Iterable[Moments], least: int) -> float | None:
    """Of durations in µs, from their sketches; within 1 %. None: fewer than ``least``."""
    bins: sketch.Bins = {}
    for one in moments:
        sketch.merge(bins, sketch.decode(one.sketch))
    count = sum(bins.values())
    if count < least:
        return None
    return math.fsum(n * math.log(sketch.middle_us(key)) for key, n in bins.items()) / count


def _context(seconds: Sequence[SecondRow], intent: str, covered_s: float) -> tuple[float, ...]:
    """Logs of: its arrivals per replica's second, its tokens a request, all tokens offered."""
    arrivals = sum(one.arrivals.get(intent, 0) for one in seconds)
    offered = sum(one.offered_tokens.get(intent, 0) for one in seconds)
    everything = sum(sum(one.offered_tokens.values()) for one in seconds)
    return (
        math.log1p(arrivals / covered_s),
        math.log1p(offered / arrivals) if arrivals else 0.0,
        math.log1p(everything / covered_s),
    )

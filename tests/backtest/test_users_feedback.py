"""What users say later: a change that is kept provisionally, confirmed or taken back, or tried by
it. Whole trials on the simulator, with simulated users."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import numpy as np

from controller.backtest.backtest import APPROVER, PROPOSER, SECOND, Backtest
from controller.hand_made import Wanted
from controller.trial import blocks
from engine.knobs import ANSWER_TOKENS
from engine.simulated.arrivals.kinds import BATCH, LIVE
from engine.simulated.arrivals.poisson import Load, poisson
from engine.simulated.arrivals.shaping import in_sessions, merged
from engine.simulated.fleet import Fleet
from engine.simulated.spec import ReplicaSpec
from policies.policy import Guard, Policy
from policies.settings import Setting
from signals.events import MICROS
from signals.features.model import Outcome, RequestRow
from signals.settings import MetricSettings
from tests.backtest.test_session_split import LONG, OVER, SHORT, STEPS
from tests.loop.world import declared

SEED = 1
AGE_S = 60
SAID_AFTER_S = 30
METRICS = {
    "copied": MetricSettings(attribution_s=AGE_S),
    "retried": MetricSettings(attribution_s=AGE_S, direction="down"),
    "liked": MetricSettings(attribution_s=200),
}
"""Both boolean: who says nothing within the age counts as a no."""


class Users:
    """Of requests with the candidate the share ``candidate`` says yes, of others ``baseline``."""

    def __init__(self, *, baseline: float, candidate: float) -> None:
        self.shares = {"baseline": baseline, "candidate": candidate}

    def __call__(self, row: RequestRow) -> Sequence[Outcome]:
        luck = int.from_bytes(sha256(row.request_id.encode()).digest()[:4], "big") / 2**32
        if luck >= self.shares[row.arm or "baseline"]:
            return ()
        return [
            Outcome(
                request_id=row.request_id,
                metric=metric,
                value=1.0,
                time_us=row.arrival_us + SAID_AFTER_S * MICROS,
                producer="shop",
                event_id=f"{metric} {row.request_id}",
            )
            for metric in METRICS
        ]


@contextmanager
def life(
    folder: Path, users: Users, *, sessions: bool = True, max_units: int = 40
) -> Iterator[Backtest]:
    """Jobs of which about half have answers too long for their limit, and some chats."""
    known = declared(mode="observe", washout_s=4.0, seed=3, alpha=0.05, max_units=max_units)
    rng = np.random.default_rng(SEED)
    arrivals = merged(
        poisson(Load(kind=BATCH, per_s=4.0, lengths=LONG), rng),
        poisson(Load(kind=LIVE, per_s=2.0, lengths=SHORT), rng),
    )
    if sessions:
        arrivals = in_sessions(arrivals, rng, mean_requests=3.0, open_at_once=16)
    spec = ReplicaSpec(
        step_times=STEPS, capacity_budget=256, capacity_answer=512, intents=("batch", "live")
    )
    slos = {name: one.slo for name, one in known.target.intents.items()}
    fleet = Fleet({"r0": spec}, arrivals, slos=slos, seed=SEED)
    backtest = Backtest(known, fleet, folder, seed=SEED, tick_s=1.0, users=users, metrics=METRICS)
    try:
        yield backtest
    finally:
        backtest.close()


def asked(
    backtest: Backtest, *, guard: Guard | None = None, primary: Guard | None = None
) -> Policy:
    """A bound of the jobs' answers, judged by users too; proposed, sized, and approved by two."""
    backtest.run(20.0)
    wanted = Wanted(
        target="chat",
        knob=ANSWER_TOKENS,
        setting=Setting(value=64),
        reason="answers in time",
        scope="batch",
        guards=() if guard is None else (guard,),
        primary=primary,
    )
    policy = backtest.operations.propose_wanted(wanted, by=PROPOSER)
    backtest.run(10.0, until=lambda: bool(backtest.policies("pending")[0].sized))
    for approver in (APPROVER, SECOND):
        policy = backtest.operations.approve(policy.id, policy.shown_digest, by=approver)
    return policy


def test_what_is_kept_for_its_reward_goes_back_when_users_like_it_less_later(
    tmp_path: Path,
) -> None:
    with life(tmp_path, Users(baseline=0.5, candidate=0.15)) as backtest:
        asked(backtest, guard=Guard(metric="copied", margin=0.3))
        backtest.run(900.0, until=lambda: bool(backtest.policies("kept", *OVER)))
        (kept,) = backtest.policies("kept")
        trial = backtest.trials()[0]
        assert (kept.verdict, kept.provisional, kept.confirmed_by) == (
            "IMPROVED",
            True,
            ("copied",),
        )
        judged = [unit for unit in trial.units if unit.judged]
        assert len(judged) >= trial.plan.least_units > trial.plan.min_units
        ended_us = max(unit.blocks[0].ended_us or 0 for unit in judged)
        assert kept.confirm_us == ended_us + AGE_S * MICROS
        backtest.run(AGE_S - SAID_AFTER_S)
        assert backtest.policies("kept"), "nothing is judged before all are old enough"
        backtest.run(300.0, until=lambda: bool(backtest.policies(*OVER[1:])))
        (gone,) = backtest.policies("reverted")
        assert (gone.verdict, gone.provisional) == ("HARMED", False)
        assert gone.cause is not None and gone.cause.startswith("HARMED: copied -0.")
        assert "policy.confirmed" not in backtest.actions()
        assert backtest.fleet.replica("r0").view().setting(ANSWER_TOKENS, "batch") is None


def test_what_users_do_not_mind_is_confirmed_and_stays(tmp_path: Path) -> None:
    with life(tmp_path, Users(baseline=0.1, candidate=0.1)) as backtest:
        asked(backtest, guard=Guard(metric="copied", margin=0.3))
        backtest.run(900.0, until=lambda: bool(backtest.policies("kept", *OVER)))
        backtest.run(200.0, until=lambda: "policy.confirmed" in backtest.actions())
        (kept,) = backtest.policies("kept")
        assert kept.sized[0].endswith("kept provisionally until it is shown to be no worse")
        assert (kept.state, kept.provisional, kept.confirmed_by) == ("kept", False, ("copied",))
        assert backtest.actions().count("policy.confirmed") == 1
        seen = backtest.fleet.replica("r0").view().setting(ANSWER_TOKENS, "batch")
        assert seen is not None and (seen.value, seen.policy_id) == (64, kept.id)


def test_with_nobody_split_by_session_blocks_are_compared_and_the_way_back_is_the_same(
    tmp_path: Path,
) -> None:
    users = Users(baseline=0.2, candidate=0.7)
    with life(tmp_path, users, sessions=False) as backtest:
        asked(backtest, guard=Guard(metric="retried", margin=0.3))
        backtest.run(1500.0, until=lambda: bool(backtest.policies("kept", *OVER)))
        assert backtest.trials()[0].plan.design == "switchback"
        assert backtest.policies("kept")[0].provisional
        backtest.run(600.0, until=lambda: bool(backtest.policies(*OVER[1:])))
        (gone,) = backtest.policies("reverted")
        assert gone.verdict == "HARMED"
        assert gone.cause is not None and gone.cause.startswith("HARMED: retried +0.")


def test_a_trial_by_what_users_say_waits_for_them_on_the_baseline_and_keeps_what_they_like(
    tmp_path: Path,
) -> None:
    users = Users(baseline=0.1, candidate=0.9)
    with life(tmp_path, users, max_units=14) as backtest:
        asked(backtest, primary=Guard(metric="liked", margin=0.6))
        backtest.run(30.0)
        plan = backtest.trials()[0].plan
        assert (plan.primary, plan.design, plan.ripens_s) == ("liked", "session_split", 200)
        assert plan.hypothesis.startswith("answer_tokens@batch 512 → 64 betters liked of the ses")
        assert backtest.fleet.replica("r0").view().candidate
        backtest.run(160.0, until=lambda: blocks.open_block(backtest.trials()[0]) is None)
        backtest.run(5.0)
        early = backtest.trials()[0]
        assert (len(early.units), early.state) == (plan.max_units, "running")
        assert any(unit.judged for unit in early.units)
        assert not any(unit.ripe for unit in early.units if unit.judged)
        assert early.ruling is not None and early.ruling.units == 0
        seen = backtest.fleet.replica("r0").view()
        assert (seen.trial, seen.candidate) == (None, ()), "it only waits, on the baseline"
        backtest.run(300.0, until=lambda: bool(backtest.policies("kept", *OVER)))
        (kept,) = backtest.policies("kept")
        assert (kept.verdict, kept.provisional) == ("IMPROVED", False)
        assert kept.cause is not None and "liked +0." in kept.cause
        ripe = [unit for unit in backtest.trials()[0].units if unit.judged and unit.ripe]
        assert len(ripe) >= plan.min_units
        assert all(unit.d["liked"] > 0.3 for unit in ripe)

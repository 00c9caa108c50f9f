"""One intent's bound of answers, tried by splitting its sessions: whole trials on the simulator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

from controller.backtest.backtest import APPROVER, Backtest
from controller.trials import Trial
from engine.knobs import ANSWER_TOKENS
from engine.simulated.arrivals.kinds import BATCH, LIVE
from engine.simulated.arrivals.lengths import Uniform
from engine.simulated.arrivals.poisson import Load, poisson
from engine.simulated.arrivals.shaping import in_sessions, merged
from engine.simulated.faults import Fault, Restart
from engine.simulated.fleet import Fleet
from engine.simulated.spec import ReplicaSpec
from engine.simulated.step_times import StepTimes
from policies.session_split import arm_of
from policies.settings import Setting
from signals.events import MICROS
from tests.loop.world import declared

SHORT = Uniform(prompt_tokens=(20, 40), output_tokens=(8, 16))
LONG = Uniform(prompt_tokens=(20, 40), output_tokens=(100, 220))
STEPS = StepTimes(base_us=12_000, per_decode_us=400, per_prefill_us=50)
OVER = ("kept", "reverted", "expired", "failed")


@contextmanager
def life(
    folder: Path,
    *,
    seed: int,
    sessions: bool = True,
    faults: Sequence[Fault] = (),
    replicas: int = 1,
    max_units: int = 12,
) -> Iterator[Backtest]:
    """Jobs of which about half have answers too long for their limit, and some chats."""
    known = declared(mode="observe", washout_s=4.0, seed=3, alpha=0.05, max_units=max_units)
    rng = np.random.default_rng(seed)
    jobs = poisson(Load(kind=BATCH, per_s=4.0, lengths=LONG), rng)
    chats = poisson(Load(kind=LIVE, per_s=2.0, lengths=SHORT), rng)
    arrivals = merged(jobs, chats)
    if sessions:
        arrivals = in_sessions(arrivals, rng, mean_requests=3.0, open_at_once=16)
    spec = ReplicaSpec(
        step_times=STEPS, capacity_budget=256, capacity_answer=512, intents=("batch", "live")
    )
    fleet = Fleet(
        {f"r{n}": spec for n in range(replicas)},
        arrivals,
        slos={name: one.slo for name, one in known.target.intents.items()},
        seed=seed,
        faults=faults,
    )
    backtest = Backtest(known, fleet, folder, seed=seed)
    try:
        yield backtest
    finally:
        backtest.close()


def tried(backtest: Backtest, bound: int) -> Trial:
    """The trial of one bound for the jobs, once it is over."""
    backtest.run(40.0)
    backtest.approved(ANSWER_TOKENS, Setting(value=bound), "in time", scope="batch")
    backtest.run(900.0, until=lambda: bool(backtest.policies(*OVER)))
    return backtest.trials()[0]


def test_a_bound_that_helps_its_sessions_is_kept_for_that_intent(tmp_path: Path) -> None:
    with life(tmp_path, seed=1, replicas=2) as backtest:
        trial = tried(backtest, 64)
        (policy,) = backtest.policies("kept")
        assert trial.plan.design == "session_split"
        assert trial.plan.hypothesis.startswith("answer_tokens@batch 512 → 64")
        assert (policy.verdict, policy.scope) == ("IMPROVED", "batch")
        assert {guard.metric for guard in trial.plan.guards} == {
            "attainment:batch",
            "attainment:live",
        }
        for name in backtest.fleet.replicas:
            backtest.run(5.0)
            seen = backtest.fleet.replica(name).view()
            own, all_have = seen.setting(ANSWER_TOKENS, "batch"), seen.setting(ANSWER_TOKENS)
            assert own is not None and (own.value, own.policy_id) == (64, policy.id)
            assert all_have is not None and all_have.value == 512
            assert (seen.trial, seen.candidate) == (None, ())


def test_while_it_runs_every_request_is_in_the_arm_of_its_session_and_gets_its_bound(
    tmp_path: Path,
) -> None:
    with life(tmp_path, seed=2) as backtest:
        backtest.run(40.0)
        backtest.approved(ANSWER_TOKENS, Setting(value=64), "in time", scope="batch")
        backtest.run(60.0)
        plan = backtest.trials()[0].plan
        now_us = backtest.fleet.now_us
        rows = [r for r in backtest.fleet.requests(0, now_us) if r.trial == plan.id]
        assert {row.arm for row in rows} == {"baseline", "candidate"}
        assert {row.block for row in rows} >= {0, 1, 2}
        for row in rows:
            assert row.arm == arm_of(plan.sessions, row.session_id or row.request_id)
            bounded = row.intent == "batch" and row.arm == "candidate"
            assert row.max_tokens <= 64 if bounded else row.max_tokens < 512
            assert row.policies == ((plan.policy_id,) if row.arm == "candidate" else ())
        assert any(row.max_tokens > 64 for row in rows if row.intent == "batch")
        assert len({row.digest for row in rows}) == 2
        first = {(row.session_id, row.arm) for row in rows}
        assert len(first) == len({session for session, _ in first}), "a session changed its arm"


def test_a_bound_that_no_answer_reaches_is_not_kept_and_each_session_counts_in_one_unit(
    tmp_path: Path,
) -> None:
    with life(tmp_path, seed=4, max_units=7) as backtest:
        trial = tried(backtest, 256)
        (policy,) = backtest.policies(*OVER)
        assert (policy.state, policy.verdict) == ("reverted", "INCONCLUSIVE")
        counted = [unit for unit in trial.units if unit.judged]
        rows = [r for r in backtest.fleet.requests(0, backtest.fleet.now_us) if r.trial]
        blocks = {unit.blocks[0].index for unit in counted}
        every = {row.session_id for row in rows if row.block in blocks}
        assert sum(sum(unit.sessions.values()) for unit in counted) == len(every)
        assert all(min(unit.sessions.values()) > 2 for unit in counted)
        lives = [unit.blocks[0] for unit in counted]
        gaps_us = [(b.began_us or 0) - (a.ended_us or 0) for a, b in pairwise(lives)]
        assert all(gap_us < MICROS for gap_us in gaps_us), "no pause between two units"


def test_without_sessions_it_moves_the_whole_engine_as_any_other(tmp_path: Path) -> None:
    with life(tmp_path, seed=5, sessions=False) as backtest:
        backtest.run(40.0)
        backtest.approved(ANSWER_TOKENS, Setting(value=64), "in time", scope="batch")
        backtest.run(15.0)
        assert backtest.trials()[0].plan.design == "switchback"


@pytest.mark.parametrize("kind", ["death", "person"])
def test_it_ends_at_once_and_leaves_nothing_behind(tmp_path: Path, kind: str) -> None:
    faults = [Restart(replica="r0", at_us=70 * MICROS, down_us=2 * MICROS)]
    with life(tmp_path, seed=6, faults=faults if kind == "death" else ()) as backtest:
        backtest.run(40.0)
        policy = backtest.approved(ANSWER_TOKENS, Setting(value=64), "in time", scope="batch")
        backtest.run(25.0)
        assert backtest.fleet.replica("r0").view().candidate
        if kind == "person":
            backtest.operations.hold("chat", "look at it", by=APPROVER)
        backtest.run(30.0)
        seen = backtest.fleet.replica("r0").view()
        assert (seen.trial, seen.candidate) == (None, ())
        assert seen.setting(ANSWER_TOKENS, "batch") is None
        (ended,) = [one for one in backtest.policies() if one.id == policy.id]
        expected = ("reverted", "HARMED") if kind == "death" else ("paused", None)
        assert (ended.state, ended.verdict) == expected


def test_a_coin_that_is_not_one_ends_it_undecided_with_that_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine whose hash leans to one side: the arms can't be compared."""

    def leans(split: object, session: str) -> str:
        return "candidate" if crc32(session.encode()) % 4 == 0 else "baseline"

    monkeypatch.setattr("engine.arriving.arm_of", leans)
    with life(tmp_path, seed=7) as backtest:
        trial = tried(backtest, 256)
        (policy,) = backtest.policies("reverted", "expired")
        assert policy.verdict == "INCONCLUSIVE"
        assert policy.cause is not None and "sample ratio mismatch" in policy.cause
        assert trial.state == "done"

"""The production loop beside a simulated fleet: what helps is kept, what does nothing is not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from controller.backtest.backtest import Backtest
from controller.state import Declared
from engine.simulated.arrivals.flood import backlog
from engine.simulated.arrivals.kinds import BATCH, LIVE
from engine.simulated.arrivals.lengths import Uniform
from engine.simulated.arrivals.poisson import Load
from engine.simulated.arrivals.shaping import merged
from engine.simulated.arrivals.waves import phases
from engine.simulated.faults import Fault, Restart
from engine.simulated.fleet import Fleet
from engine.simulated.spec import ReplicaSpec
from engine.simulated.step_times import StepTimes
from policies.laws import Law, LawStep
from policies.settings import Setting
from signals.events import MICROS
from tests.loop.world import declared as short_trials

SHORT = Uniform(prompt_tokens=(20, 40), output_tokens=(8, 16))
LONG = Uniform(prompt_tokens=(20, 40), output_tokens=(60, 100))
STEPS = StepTimes(base_us=12_000, per_decode_us=1_200, per_prefill_us=150)
LAW = Setting(
    law=Law(
        variable="arrivals",
        class_="interactive",
        window_s=2.0,
        default=64,
        steps=(LawStep(above=0, value=8),),
        min_dwell_s=1.0,
    ),
    shrink="preempt",
)


@contextmanager
def life(folder: Path, *, seed: int, faults: Sequence[Fault] = ()) -> Iterator[Backtest]:
    """Batch jobs that always wait, and interactive requests in phases of 8 s."""
    declared = sample()
    rng = np.random.default_rng(seed)
    arrivals = merged(
        phases(Load(kind=LIVE, per_s=4.0, lengths=SHORT), rng, on_s=8.0, off_s=8.0),
        backlog(Load(kind=BATCH, per_s=10.0, lengths=LONG), rng, jobs=200),
    )
    fleet = Fleet(
        {"r0": ReplicaSpec(step_times=STEPS, capacity_budget=256)},
        arrivals,
        slos={name: one.slo for name, one in declared.target.intents.items()},
        seed=seed,
        faults=faults,
    )
    backtest = Backtest(declared, fleet, folder, seed=seed)
    try:
        yield backtest
    finally:
        backtest.close()


def sample() -> Declared:
    return short_trials(mode="observe", cycle_s=16.0, washout_s=4.0, seed=3)


def test_a_law_that_helps_is_tried_and_kept(tmp_path: Path) -> None:
    with life(tmp_path, seed=1) as backtest:
        backtest.run(40.0)
        policy = backtest.approved("active_cap", LAW, "small while interactive requests come")
        backtest.run(900.0, until=lambda: not backtest.policies("approved", "applying", "on_trial"))
        kept = backtest.policies("kept")
        assert [one.id for one in kept] == [policy.id], backtest.trials()[0].ruling
        shown = backtest.fleet.replica("r0").view().setting("active_cap")
        assert shown is not None
        assert shown.law == LAW.law


def test_a_restart_in_the_candidates_block_ends_the_trial_and_the_fleet_is_brought_back(
    tmp_path: Path,
) -> None:
    faults = [Restart(replica="r0", at_us=at_s * MICROS, down_us=2 * MICROS) for at_s in (60, 100)]
    with life(tmp_path, seed=2, faults=faults) as backtest:
        backtest.run(40.0)
        backtest.approved("active_cap", Setting(value=4), "smaller")
        backtest.run(200.0)
        assert [one.verdict for one in backtest.policies("reverted", "expired")] == ["HARMED"]
        shown = backtest.fleet.replica("r0").view().setting("active_cap")
        assert shown is not None
        assert shown.value == 8


def test_the_same_seed_gives_the_same_life(tmp_path: Path) -> None:
    lives = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        with life(folder, seed=5) as backtest:
            backtest.run(20.0)
            backtest.approved("active_cap", Setting(value=16), "larger")
            backtest.run(120.0)
            units = backtest.trials()[0].units
            lives.append([(unit.d, [block.began_us for block in unit.blocks]) for unit in units])
    assert lives[0] == lives[1]
    assert any(d for d, _ in lives[0])

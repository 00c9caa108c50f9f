"""What the holdback says of the loop's worth, against what the worth is."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import numpy as np
import pytest
from numpy.random import PCG64, Generator

from controller.backtest.backtest import Backtest
from controller.config.targets import HoldbackSettings
from controller.history.worth import worth_report
from controller.holdback.drawing import HoldbackPlan, arm_of
from controller.holdback.worth import estimates, summed
from controller.judge.values import block_values, unit_differences
from controller.trials import Block
from engine.simulated.arrivals.flood import backlog
from engine.simulated.arrivals.kinds import BATCH, LIVE
from engine.simulated.arrivals.poisson import Load, poisson
from engine.simulated.arrivals.shaping import merged
from engine.simulated.fleet import Fleet
from engine.simulated.spec import ReplicaSpec
from policies.laws import Law, LawStep
from policies.policy import Effect, Origin, Policy
from policies.runtime_config import Patch, SettingChange
from policies.settings import Setting
from signals.events import MICROS
from tests.backtest.test_a_life import LONG, SHORT, STEPS
from tests.loop.cases import WON
from tests.loop.world import declared as short_trials

M, STRATA = 20, 60
BLOCK_S = 20.0
PLAIN = short_trials(mode="observe", washout_s=4.0)
HOLDBACK = HoldbackSettings(share=0.5, block_s=BLOCK_S)
DECLARED = msgspec.structs.replace(
    PLAIN, target=PLAIN.target.model_copy(update={"holdback": HOLDBACK})
)
KEPT = Setting(
    law=Law(
        variable="arrivals",
        class_="interactive",
        window_s=2.0,
        default=32,
        steps=(LawStep(above=100, value=8),),
    )
)
"""A cap of 32 but in a flood that never comes."""


def load_of(rng: Generator, blocks: int) -> np.ndarray:
    """U by block with nothing changed: a day's wave, and noise in which neighbours are alike."""
    noise = np.zeros(blocks)
    for index in range(1, blocks):
        noise[index] = 0.9 * noise[index - 1] + 0.02 * rng.standard_normal()
    return 0.1 * np.sin(np.arange(blocks) * 2 * math.pi / 288) + noise


def measured(seed: int, worth: float) -> Effect:
    """What a week's strata say of a worth that is known."""
    usual = load_of(Generator(PCG64(seed)), M * STRATA) + worth
    strata = []
    for first in range(0, M * STRATA, M):
        held = next(n for n in range(first, first + M) if arm_of(seed, n, M) == "baseline")
        rest = [usual[n] for n in range(first, first + M) if n != held]
        strata.append({"U": float(np.mean(rest) - (usual[held] - worth))})
    return estimates(strata)[0]


@pytest.mark.parametrize("worth", [0.0, 0.05])
def test_the_interval_covers_the_worth_however_much_blocks_are_like_their_neighbours(
    worth: float,
) -> None:
    found = [measured(seed, worth) for seed in range(200)]
    covered = sum(one.low <= worth <= one.high for one in found)
    assert covered >= 184, f"seeds 0..199: {covered} of 200 cover it"
    assert abs(np.mean([one.estimate for one in found]) - worth) < 0.002
    width = np.mean([one.high - one.low for one in found])
    assert width < 0.04, "and it says something"


def test_a_few_strata_say_nothing_and_a_metric_that_few_have_neither() -> None:
    assert estimates([{"U": 0.1}] * 4) == ()
    found = estimates([{"U": 0.1, "x": 0.2}] * 4 + [{"U": 0.3}])
    assert [one.metric for one in found] == ["U"]


def test_effects_of_trials_add_and_their_half_widths_add_as_squares() -> None:
    one = Effect(metric="U", estimate=0.03, low=0.0, high=0.06, source="a")
    other = Effect(metric="U", estimate=0.05, low=0.01, high=0.09, source="b")
    both = summed([one, other])
    assert both is not None
    assert (both.estimate, both.low, both.high) == pytest.approx((0.08, 0.03, 0.13))
    assert summed([]) is None


def a_fleet(seed: int) -> Fleet:
    """One on which a larger cap is worth something: batch jobs always wait."""
    rng = np.random.default_rng(seed)
    arrivals = merged(
        poisson(Load(kind=LIVE, per_s=1.5, lengths=SHORT), rng),
        backlog(Load(kind=BATCH, per_s=4.0, lengths=LONG), rng, jobs=60),
    )
    return Fleet(
        {"r0": ReplicaSpec(step_times=STEPS, capacity_budget=256)},
        arrivals,
        slos={name: one.slo for name, one in DECLARED.target.intents.items()},
        seed=seed,
    )


def kept_law(backtest: Backtest) -> None:
    """The policy as if its trial had been won before the life began."""
    policy = Policy(
        id="pol_kept",
        target="chat",
        knob="active_cap",
        before=Setting(value=8),
        setting=KEPT,
        origin=Origin(kind="learner", name="thompson"),
        reason="kept long ago",
        mode="auto",
        proposed_by="learner:thompson",
        created_us=0,
        updated_us=0,
    )
    with backtest._store.write() as tx:
        tx.add_policy(policy)
        for after in WON:
            policy = tx.move(policy, after, actor="test", at_us=0)


def means(plan: HoldbackPlan, setting: Setting, *, seed: int, blocks: int) -> dict[str, float]:
    """What blocks show on average in a life under one setting all along, nothing stamped."""
    fleet = a_fleet(seed)
    fleet.run(1)
    patch = SettingChange(knob="active_cap", value=setting.value, law=setting.law)
    seen = fleet.replica("r0").view()
    fleet.replica("r0").patch(
        Patch(change_id="set", epoch=1, expected=seen.expected, settings=(patch,))
    )
    plain = msgspec.structs.replace(plan, id="")
    found: dict[str, list[float]] = {}
    for index in range(2, blocks):
        span = (round(index * BLOCK_S) * MICROS, round((index + 1) * BLOCK_S) * MICROS)
        fleet.run(span[1])
        rows, ticks = list(fleet.requests(*span)), list(fleet.seconds(*span))
        block = Block(index=-1, arm="baseline", began_us=span[0])
        values = block_values(plain, block, rows, ticks)
        assert not isinstance(values, str), values
        for name, value in values.values.items():
            found.setdefault(name, []).append(value)
    return {name: float(np.mean(each)) for name, each in found.items()}


def test_the_holdback_finds_what_the_loop_is_worth(tmp_path: Path) -> None:
    """Against two other lives: one with what is kept all along, one on the baseline."""
    seed = 11
    backtest = Backtest(DECLARED, a_fleet(seed), tmp_path, seed=seed, tick_s=2.0)
    kept_law(backtest)
    backtest.run(460.0)
    with backtest._store.read() as tx:
        report = worth_report(tx, "chat", from_us=0, to_us=backtest.clock_us(), holdback=True)
        frozen = next(one for one in tx.audit() if one.action == "holdback.frozen")
    backtest.close()
    plan = msgspec.convert(frozen.details["plan"], HoldbackPlan, strict=False)
    usual, baseline = (
        means(plan, setting, seed=seed + 1, blocks=30) for setting in (KEPT, Setting(value=8))
    )
    truth = unit_differences(baseline, usual)["U"]
    worth = report.worth[0]
    assert report.strata >= 9
    assert (report.baseline.counted, report.as_usual.counted) == (report.strata, report.strata)
    assert worth.metric == "U"
    assert truth > 0.03, "it is worth something"
    assert worth.estimate == pytest.approx(truth, abs=0.04)
    assert worth.low <= truth <= worth.high, f"seed {seed}: {worth}, true {truth:.4f}"

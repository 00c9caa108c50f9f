"""One block of drift: what counts in it, and what a candidate did does not."""

from __future__ import annotations

import math

import msgspec
import numpy as np

from controller.backtest.features import SimulatedFeatures
from controller.drift.blocks import DriftBlock, block_of
from controller.trials import Block, Trial, Unit
from engine.simulated.arrivals.kinds import LIVE
from engine.simulated.arrivals.poisson import Load, poisson
from engine.simulated.faults import TelemetryLoss
from engine.simulated.fleet import Fleet
from engine.simulated.spec import ReplicaSpec
from engine.simulated.step_times import StepTimes
from policies.runtime_config import Patch, TrialStamp
from policies.settings import Setting
from signals.events import MICROS
from signals.settings import Slo
from tests.judge.builders import plan

S = MICROS


def lived(
    *faults: TelemetryLoss, arm: str | None = None, trial_id: str = "tri_1"
) -> SimulatedFeatures:
    """A minute without a trial, or under one arm of a block that begins at once."""
    fleet = Fleet(
        {"r0": ReplicaSpec(step_times=StepTimes(base_us=9e3, per_decode_us=9e2, per_prefill_us=9))},
        poisson(Load(kind=LIVE, per_s=5.0), np.random.default_rng(12)),
        slos={"live": Slo(ttft_ms=1000)},
        seed=12,
        faults=faults,
    )
    if arm is not None:
        replica = fleet.replica("r0")
        stamp = TrialStamp(
            id=trial_id, block=0, arm="candidate" if arm == "candidate" else "baseline"
        )
        expected = replica.view().expected
        replica.patch(Patch(change_id="c", epoch=1, expected=expected, trial=stamp))
    fleet.run(62 * S)
    return SimulatedFeatures(fleet)


def block(
    features: SimulatedFeatures, trial: Trial | None = None, *, from_s: int = 30, least: int = 8
) -> DriftBlock:
    bounds = {"from_us": from_s * S, "to_us": (from_s + 30) * S}
    return block_of(
        features.windows("chat", **bounds),
        features.seconds("chat", **bounds),
        trial=trial,
        intents=["live", "batch"],
        min_requests=least,
        **bounds,
    )


def running(arm: str) -> Trial:
    """A trial whose first block began when the engine did."""
    first = Block(index=0, arm="candidate" if arm == "candidate" else "baseline", began_us=1)
    frozen = msgspec.structs.replace(plan(), id="tri_1", washout_s=40.0, candidate=Setting(value=4))
    return Trial(plan=frozen, units=(Unit(index=0, blocks=(first,)),), began_us=0)


def test_a_block_has_the_mean_logs_of_its_requests_and_their_load() -> None:
    features = lived()
    found = block(features)
    rows = [
        r for r in features.find_requests("chat", limit=10_000) if 30 * S <= r.arrival_us < 60 * S
    ]
    mean = sum(math.log(row.ttft_us) for row in rows if row.ttft_us) / len(rows)
    assert abs(found.figures["ttft:live"] - mean) < 0.02
    assert set(found.figures) == {"ttft:live", "tpot:live"}
    arrivals, length, everything = found.context["live"]
    assert abs(math.expm1(arrivals) - len(rows) / 30) < 0.3
    assert math.expm1(everything) > math.expm1(arrivals) * math.expm1(length) * 0.9
    assert found.context["batch"] == (0.0, 0.0, everything)
    assert found.digest


def test_what_few_requests_say_is_left_out_and_the_load_is_still_told() -> None:
    found = block(lived(), least=10_000)
    assert found.figures == {}
    assert found.context["live"][0] > 0


def test_a_candidates_block_says_nothing() -> None:
    features = lived(arm="candidate")
    assert block(features, running("candidate")) == DriftBlock(to_us=60 * S)


def test_a_baselines_block_counts_after_its_washout() -> None:
    features = lived(arm="baseline")
    washed = block(features, running("baseline"), least=1)
    whole = block(features, msgspec.structs.replace(running("baseline")), from_s=0, least=1)
    assert washed.figures
    assert whole.figures == {}


def test_a_trial_that_is_not_known_any_more_says_nothing() -> None:
    assert block(lived(arm="baseline")) == DriftBlock(to_us=60 * S)


def test_a_holdback_s_blocks_are_watched_as_any_other_time_is() -> None:
    assert block(lived(arm="candidate", trial_id="hbk_1")).figures


def test_a_gap_in_telemetry_makes_the_block_say_nothing() -> None:
    holed = lived(TelemetryLoss(replica="r0", at_us=42 * S, for_us=2 * S))
    assert block(holed) == DriftBlock(to_us=60 * S)

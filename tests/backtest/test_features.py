"""What the controller reads of a simulated fleet is what the feature stage would have told it."""

from __future__ import annotations

from collections import Counter

import numpy as np

from controller.backtest.features import SimulatedFeatures
from engine.simulated.arrivals.kinds import LIVE
from engine.simulated.arrivals.poisson import Load, poisson
from engine.simulated.faults import TelemetryLoss
from engine.simulated.fleet import Fleet
from engine.simulated.spec import ReplicaSpec
from engine.simulated.step_times import StepTimes
from policies.runtime_config import Arm, Patch, TrialStamp
from signals.events import MICROS
from signals.features.view import feature_values
from signals.settings import Slo

ARMS: tuple[Arm, ...] = ("baseline", "candidate", "baseline")


def lived(*faults: TelemetryLoss) -> SimulatedFeatures:
    """A minute, in three blocks of a trial, the last of which is running."""
    fleet = Fleet(
        {"r0": ReplicaSpec(step_times=StepTimes(base_us=9e3, per_decode_us=9e2, per_prefill_us=9))},
        poisson(Load(kind=LIVE, per_s=5.0), np.random.default_rng(11)),
        slos={"live": Slo(ttft_ms=1000)},
        seed=11,
        faults=faults,
    )
    for block, arm in enumerate(ARMS):
        replica = fleet.replica("r0")
        stamp = TrialStamp(id="tri_1", block=block, arm=arm)
        replica.patch(
            Patch(change_id=f"c{block}", epoch=1, expected=replica.view().expected, trial=stamp)
        )
        fleet.run(fleet.now_us + 20 * MICROS)
    return SimulatedFeatures(fleet)


def test_rows_of_one_block_are_those_that_arrived_in_it_and_no_others() -> None:
    features = lived()
    by_block = [features.trial_requests("tri_1", block=block) for block in range(3)]
    assert all(len(rows) > 50 for rows in by_block)
    assert [{row.block for row in rows} for rows in by_block] == [{0}, {1}, {2}]
    assert {row.arm for row in by_block[1]} == {"candidate"}
    assert sum(map(len, by_block)) == len(features.trial_requests("tri_1"))
    assert {row.block for row in features.trial_seconds("tri_1", block=1)} == {1}
    assert list(features.trial_requests("tri_2")) == []


def test_windows_count_each_request_once_where_it_arrived() -> None:
    features = lived()
    windows = features.windows("chat", from_us=0, to_us=60 * MICROS)
    requests = features.find_requests("chat", limit=10_000)
    counted: Counter[int] = Counter()
    for window in windows:
        counted[window.key.block] += window.counts.requests
    assert counted == Counter(row.block for row in requests)
    assert sum(window.counts.good for window in windows) == sum(r.good is True for r in requests)
    now = feature_values(
        windows,
        features.seconds("chat", from_us=0, to_us=60 * MICROS),
        now_us=features.now_us,
        intents=["live"],
    )
    assert 2.0 < now["live.arrivals_per_s"] < 8.0
    assert now["live.attainment"] == 1.0


def test_the_latest_requests_come_first_and_no_more_than_asked_for() -> None:
    features = lived()
    found = features.find_requests("chat", intent="live", limit=30)
    arrivals = [row.arrival_us for row in found]
    assert len(found) == 30
    assert arrivals == sorted(arrivals, reverse=True)
    assert arrivals[0] > 59 * MICROS
    assert features.find_requests("chat", intent="nobody") == []


def test_a_window_of_lost_records_is_incomplete_and_its_neighbours_are_not() -> None:
    features = lived(TelemetryLoss(replica="r0", at_us=27 * MICROS, for_us=2 * MICROS))
    windows = features.windows("chat", from_us=0, to_us=60 * MICROS)
    lost = {window.key.start_us // MICROS for window in windows if window.incomplete}
    assert lost == {25}

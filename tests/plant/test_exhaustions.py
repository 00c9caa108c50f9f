"""When memory was exhausted, told from the last records of an engine's life."""

from __future__ import annotations

import numpy as np

from controller.backtest.features import SimulatedFeatures
from controller.plant.exhaustions import exhaustions
from engine.embedded.worker import out_of_memory
from engine.simulated.arrivals.kinds import BATCH
from engine.simulated.arrivals.poisson import Load, poisson
from engine.simulated.faults import Fault, MemoryShrinks, Restart
from engine.simulated.fleet import Fleet, layout
from engine.simulated.spec import ReplicaSpec
from engine.simulated.step_times import StepTimes
from policies.runtime_config import Patch, TrialStamp
from signals.events import MICROS
from signals.settings import Slo

SPEC = ReplicaSpec(
    step_times=StepTimes(base_us=9e3, per_decode_us=9e2, per_prefill_us=9),
    kv_blocks=2000,
    restart_us=5 * MICROS,
)


def lived(*faults: Fault, candidate: bool = False) -> SimulatedFeatures:
    fleet = Fleet(
        {"r0": SPEC},
        poisson(Load(kind=BATCH, per_s=8.0), np.random.default_rng(4)),
        slos={"batch": Slo(e2e_ms=60_000)},
        seed=4,
        faults=faults,
    )
    fleet.run(10 * MICROS)
    if candidate:
        replica = fleet.replica("r0")
        stamp = TrialStamp(id="tri_1", block=3, arm="candidate")
        replica.patch(Patch(change_id="c", epoch=1, expected=replica.view().expected, trial=stamp))
    fleet.run(40 * MICROS)
    return SimulatedFeatures(fleet)


def told(features: SimulatedFeatures) -> list[tuple[str, int | None, str, str | None]]:
    found = exhaustions(
        features.find_requests("chat", limit=10_000),
        features.seconds("chat", from_us=0, to_us=40 * MICROS),
    )
    return [(one.replica, one.cap, one.trial, one.arm) for one in found]


def test_an_engine_that_needs_more_than_fits_tells_so_once_with_its_cap() -> None:
    assert told(lived(MemoryShrinks(replica="r0", at_us=20 * MICROS, blocks=3))) != []
    first = told(lived(MemoryShrinks(replica="r0", at_us=20 * MICROS, blocks=3)))[0]
    assert first == ("r0", SPEC.capacity_active, "", None)


def test_it_is_the_arms_that_it_died_under() -> None:
    shrinks = MemoryShrinks(replica="r0", at_us=20 * MICROS, blocks=3)
    assert told(lived(shrinks, candidate=True))[0][2:] == ("tri_1", "candidate")


def test_another_death_is_none() -> None:
    assert told(lived(Restart(replica="r0", at_us=20 * MICROS, down_us=MICROS))) == []
    assert told(lived()) == []


def test_a_simulated_engine_announces_its_blocks() -> None:
    assert (layout(SPEC).blocks, layout(SPEC).block_tokens) == (2000, SPEC.block_tokens)
    assert [one.kv for one in lived().engines("chat")] == [layout(SPEC)]


def test_an_engine_tells_running_out_of_memory_from_every_other_failure() -> None:
    class OutOfMemoryError(RuntimeError):
        """As torch calls its own."""

    assert out_of_memory(MemoryError())
    assert out_of_memory(OutOfMemoryError("CUDA out of memory"))
    assert not out_of_memory(RuntimeError("out of range"))

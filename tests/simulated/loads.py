"""Arrivals, replicas and patches that the tests share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

import numpy as np

from engine.simulated.faults import Fault
from engine.simulated.fleet import Fleet, Router
from engine.simulated.offered import Offered
from engine.simulated.replica import Replica
from engine.simulated.spec import ReplicaSpec
from engine.simulated.step_times import StepTimes
from policies.runtime_config import Patch, RuntimeConfig, SettingChange, TrialStamp
from signals.settings import Slo

SECOND_US = 1_000_000
TIMES = StepTimes(base_us=10_000, per_decode_us=500, per_prefill_us=50)
SPEC = ReplicaSpec(step_times=TIMES)
SLOS = {"live": Slo(ttft_ms=1000, tpot_ms=50), "batch": Slo(e2e_ms=60_000)}


def mixed(
    seed: int, *, per_s: float = 3.0, prompt: int = 200, output: int = 60, batch: float = 0.5
) -> Iterator[Offered]:
    """Poisson arrivals of both classes, exponential lengths; without end."""
    rng, at_s = np.random.default_rng(seed), 0.0
    while True:
        at_s += rng.exponential(1 / per_s)
        of_batch = rng.random() < batch
        yield Offered(
            arrival_s=at_s,
            intent="batch" if of_batch else "live",
            class_="batch" if of_batch else "interactive",
            prompt_tokens=1 + int(rng.exponential(prompt)),
            output_tokens=1 + int(rng.exponential(output)),
        )


def until(arrivals: Iterator[Offered], to_s: float) -> Iterator[Offered]:
    """Those that come before ``to_s``."""
    return takewhile(lambda one: one.arrival_s < to_s, arrivals)


def chats(*at_s: float, output: int = 100, prompt: int = 10) -> Iterator[Offered]:
    """Interactive requests at these times."""
    return (
        Offered(
            arrival_s=one,
            intent="live",
            class_="interactive",
            prompt_tokens=prompt,
            output_tokens=output,
        )
        for one in at_s
    )


def fleet(
    arrivals: Iterator[Offered],
    *specs: ReplicaSpec,
    seed: int = 1,
    router: Router = "random",
    faults: Sequence[Fault] = (),
) -> Fleet:
    """Replicas r0, r1, … ; one of ``SPEC`` when none is given."""
    named = {f"r{number}": spec for number, spec in enumerate(specs or (SPEC,))}
    return Fleet(named, arrivals, slos=SLOS, seed=seed, router=router, faults=faults)


def change(
    replica: Replica,
    *settings: SettingChange,
    trial: TrialStamp | None = None,
    hold: bool | None = None,
) -> RuntimeConfig:
    """A patch that expects what is in force."""
    seen = replica.view()
    patch = Patch(
        change_id=f"change-{seen.version}-{replica.at_us}",
        epoch=seen.epoch,
        expected=seen.expected,
        settings=settings,
        trial=trial,
        hold=hold,
    )
    return replica.patch(patch)


def cap(value: int, **fields: object) -> SettingChange:
    """A setting of the active cap."""
    return SettingChange(knob="active_cap", value=value, **fields)  # type: ignore[arg-type]

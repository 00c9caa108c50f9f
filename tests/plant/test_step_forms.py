from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from controller.config.sections import TrialSettings
from controller.plant.laws import propose_law
from controller.plant.step_curve import BootPoint, StepCurve, fit
from controller.plant.step_forms import choose
from policies.proposal import Proposal
from policies.settings import Setting
from signals.events import StepMoments
from tests.plant.samples import (
    BASE_US,
    BOOT,
    CAP,
    DECODE_US,
    LADDER,
    PREFILL_US,
    intents,
    moments,
    plant_input,
)

Truth = Callable[[float, float], float]


def line(b: float, f: float) -> float:
    return BASE_US + DECODE_US * b + PREFILL_US * f


def log(b: float, f: float) -> float:
    return BASE_US * (1 + 0.6 * math.log2(b)) + PREFILL_US * f


def seconds(
    truth: Truth, *, seed: int, batches: Sequence[int] = (2, 4, 8, 16, 32), n: int = 60
) -> list[StepMoments]:
    """A second of 20 steps each; the batch stays within a second, and every step has 5 % noise."""
    rng = np.random.default_rng(seed)
    found = []
    for index in range(n):
        b = batches[index % len(batches)]
        steps = []
        for _ in range(20):
            f = int(rng.integers(0, 64)) if rng.random() < 0.3 else 0
            steps.append((b, f, truth(b, f) * float(np.exp(rng.normal(0, 0.05)))))
        found.append(moments(steps))
    return found


def chosen(seen: Sequence[StepMoments], boot: Sequence[BootPoint] = ()) -> StepCurve:
    found = choose(seen, boot, prior_share=0.1, min_points=30)
    assert isinstance(found, StepCurve), found
    return found


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("truth", "form"), [(line, "line"), (log, "log")])
def test_the_form_that_the_engine_has_is_kept(truth: Truth, form: str, seed: int) -> None:
    curve = chosen(seconds(truth, seed=seed))
    assert curve.form == form
    right, wrong = (
        (curve.line_error, curve.log_error)
        if form == "line"
        else (curve.log_error, curve.line_error)
    )
    assert right is not None and wrong is not None
    assert right < 0.02 < 0.04 < wrong
    for b in (1, 8, 32, 64):
        assert curve.step_us(b, 10) == pytest.approx(truth(b, 10), rel=0.05)


def test_a_line_is_fitted_to_the_exact_sums() -> None:
    seen = seconds(line, seed=1)
    total = StepMoments(
        **{name: sum(getattr(s, name) for s in seen) for name in StepMoments.__struct_fields__}
    )
    plain = fit(total, BOOT, prior_share=0.1)
    assert isinstance(plain, StepCurve)
    curve = chosen(seen, BOOT)
    assert (curve.base_us, curve.per_decode_us, curve.steps, curve.left_out) == (
        plain.base_us,
        plain.per_decode_us,
        plain.steps,
        0,
    )


@pytest.mark.parametrize("truth", [line, log])
def test_seconds_in_which_the_machine_was_away_do_not_bend_the_curve(truth: Truth) -> None:
    seen = seconds(truth, seed=2)
    stalls = seconds(lambda b, f: 8 * truth(b, f), seed=3, batches=(32,), n=6)
    curve = chosen([*seen, *stalls])
    assert curve.left_out == 6
    assert curve.form == truth.__name__
    assert curve.step_us(32, 0) == pytest.approx(truth(32, 0), rel=0.04)
    bent = fit(
        StepMoments(
            **{
                name: sum(getattr(s, name) for s in (*seen, *stalls))
                for name in StepMoments.__struct_fields__
            }
        ),
        (),
        prior_share=0.1,
    )
    assert isinstance(bent, StepCurve)
    assert bent.step_us(32, 0) > 1.5 * truth(32, 0)


@pytest.mark.parametrize("truth", [line, log])
def test_an_engine_that_always_runs_full_takes_the_form_it_had_at_boot(truth: Truth) -> None:
    boot = tuple(
        (b, f, round(truth(b, f)))
        for b, f in [(1, 0), (2, 0), (4, 0), (8, 0), (16, 0), (32, 0), (64, 0), (1, 128), (1, 256)]
    )
    slower = seconds(lambda b, f: 1.5 * truth(b, f), seed=4, batches=(64,))
    curve = chosen(slower, boot)
    assert curve.form == truth.__name__
    assert curve.step_us(8, 0) == pytest.approx(1.5 * truth(8, 0), rel=0.1)


def test_few_seconds_compare_no_forms() -> None:
    curve = chosen(seconds(log, seed=5, n=29), BOOT)
    assert (curve.form, curve.line_error, curve.log_error) == ("line", None, None)
    assert choose([], (), prior_share=0.1, min_points=30) == (
        "no step was seen and no curve was measured at boot"
    )


def test_idle_seconds_are_no_points() -> None:
    seen = seconds(line, seed=6)
    assert chosen([*seen, *[StepMoments()] * 40]) == chosen(seen)


def test_a_proposal_shows_both_errors() -> None:
    found = propose_law(
        "chat",
        intents(50),
        plant_input(points=tuple(seconds(line, seed=7))),
        spec=CAP,
        ladder=LADDER,
        before=Setting(value=8),
        limits=TrialSettings(),
    )
    assert isinstance(found, Proposal), found
    assert found.evidence["line_form_error"] < found.evidence["log_form_error"]
    assert "one in their logarithm by" in found.reason

from __future__ import annotations

import doctest
from typing import Any

import msgspec
import pytest

from controller.plant import step_curve
from controller.plant.step_curve import StepCurve, fit
from signals.events import StepMoments
from tests.plant.samples import BASE_US, BOOT, DECODE_US, PREFILL_US, moments, steps

SHARE = 0.1


def fitted(seen: StepMoments, boot: Any = BOOT) -> StepCurve:
    found = fit(seen, boot, prior_share=SHARE)
    assert isinstance(found, StepCurve), found
    return found


def coefficients(curve: StepCurve) -> tuple[float, float, float]:
    return curve.base_us, curve.per_decode_us, curve.per_prefill_us


def test_the_documented_example_is_true() -> None:
    assert doctest.testmod(step_curve).failed == 0


def test_exact_steps_give_the_exact_curve() -> None:
    curve = fitted(steps(500, batches=(1, 8, 32), seed=3), boot=())
    assert coefficients(curve) == pytest.approx((BASE_US, DECODE_US, PREFILL_US), rel=1e-3)
    assert (curve.steps, curve.residual < 1e-4) == (500, True)


def test_noisy_steps_give_nearly_the_curve_and_an_honest_residual() -> None:
    curve = fitted(steps(5000, batches=(2, 8, 32), seed=4, noise=0.05))
    assert coefficients(curve) == pytest.approx((BASE_US, DECODE_US, PREFILL_US), rel=0.05)
    assert 0.03 < curve.residual < 0.08


def test_before_any_step_the_curve_is_the_one_measured_at_boot() -> None:
    curve = fitted(StepMoments())
    assert coefficients(curve) == pytest.approx((BASE_US, DECODE_US, PREFILL_US), rel=1e-3)
    assert curve.steps == 0


@pytest.mark.parametrize("batch", [1, 8, 64])
def test_one_batch_size_scales_the_boot_curve_to_the_speed_seen(batch: int) -> None:
    """Base and slope can't be told apart there, so the boot curve's shape is kept."""
    slow = moments([(batch, 0, 1.5 * (BASE_US + DECODE_US * batch))] * 300)
    curve = fitted(slow)
    expected = (1.5 * BASE_US, 1.5 * DECODE_US, 1.5 * PREFILL_US)
    assert coefficients(curve) == pytest.approx(expected, rel=1e-3)


def test_a_faster_engine_than_at_boot_is_followed() -> None:
    curve = fitted(steps(3000, batches=(4, 16, 64), seed=5, factor=0.5, noise=0.02))
    assert curve.step_us(16, 0) == pytest.approx(0.5 * (BASE_US + DECODE_US * 16), rel=0.05)


def test_nothing_to_go_by_is_said() -> None:
    assert fit(StepMoments(), (), prior_share=SHARE) == (
        "no step was seen and no curve was measured at boot"
    )
    alone = fit(moments([(8, 0, 30_000.0)] * 50), (), prior_share=SHARE)
    assert alone == "steps of one batch size only, and no curve measured at boot"


def test_no_coefficient_is_negative_even_where_the_data_fall() -> None:
    falling = fitted(moments([(b, 0, 50_000.0 - 300.0 * b) for b in range(1, 64)]), boot=())
    assert min(coefficients(falling)) >= 0
    through_zero = fitted(moments([(b, 0, 1000.0 * b - 900) for b in range(1, 64)]), boot=())
    assert min(coefficients(through_zero)) >= 0
    assert through_zero.step_us(63, 0) == pytest.approx(62_100, rel=0.05)


def test_sums_merged_in_any_order_give_the_same_curve() -> None:
    parts = [steps(200, batches=(1, 8), seed=seed, noise=0.1) for seed in range(4)]

    def merged(order: list[StepMoments]) -> StepMoments:
        fields = StepMoments.__struct_fields__
        return StepMoments(**{f: sum(getattr(part, f) for part in order) for f in fields})

    assert fitted(merged(parts)) == fitted(merged(parts[::-1]))


def test_a_curve_can_be_stored_and_speaks_in_milliseconds() -> None:
    curve = fitted(StepMoments())
    assert msgspec.json.decode(msgspec.json.encode(curve), type=StepCurve) == curve
    assert curve.words() == "18.0 ms + 1.3 ms a sequence + 0.70 ms a prompt token"
    assert curve.tpot_ms(8, 2.0) == pytest.approx(18 + 8 * (1.3 + 2 * 0.7), rel=1e-3)
    assert curve.tokens_per_s(8, 0.0) == pytest.approx(8 / 0.0284, rel=1e-3)

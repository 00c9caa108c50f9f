"""What the plant model expects of settings under a load, and how that load is read off."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from controller.plant.offered import Offered, measured, offered, recent
from controller.plant.outlook import Outlook
from controller.plant.residual import Residual
from controller.plant.settings import PlantSettings
from controller.plant.step_curve import StepCurve
from controller.state import PlantInput, Traffic
from signals.events import MICROS, StepMoments
from signals.settings import IntentSettings
from tests.plant.samples import plant_input

LADDER = (2, 4, 8, 16, 32, 64)
CURVE = StepCurve(
    base_us=25_000.0, per_decode_us=500.0, per_prefill_us=50.0, steps=5000, residual=0.0
)
INTENTS = {
    "live": IntentSettings.model_validate(
        {"class": "interactive", "slo": {"ttft_ms": 2000, "tpot_ms": 38, "attainment": 0.97}}
    ),
    "batch": IntentSettings.model_validate(
        {"class": "batch", "slo": {"tpot_ms": 200, "attainment": 0.9}}
    ),
}
CHATS = Traffic(prompt_tokens=64, output_tokens=32, output_cv2=0.1)
JOBS = Traffic(prompt_tokens=48, output_tokens=250, output_cv2=0.02, waiting_share=1.0)
NOW_US = 1800 * MICROS


def load(**changes: Any) -> PlantInput:
    """Chats in every other 80 s, jobs always."""
    arrivals = tuple(
        (at * MICROS, {"live": 3 if at % 2 else 0, "batch": 5} if at // 80 % 2 else {"batch": 5})
        for at in range(1, 1801)
    )
    fields = {"arrivals": arrivals, "offered": arrivals, "prefill_per_decode": 0.4}
    traffic = {"live": CHATS, "batch": JOBS}
    return plant_input(**{**fields, "traffic": traffic, **changes})


def seen(plant: PlantInput) -> Offered:
    lately = recent(plant, now_us=NOW_US)
    return offered(INTENTS, lately, maximized="batch", window_s=2.0)


def outlook(plant: PlantInput) -> Outlook:
    found = seen(plant)
    return Outlook(
        curve=CURVE,
        rho=plant.prefill_per_decode,
        residual=Residual.of((), LADDER, now_us=NOW_US, model=PlantSettings(residual_spread=0.05)),
        share=found.share,
        interactive=found.interactive,
        others=found.others,
        reference_tokens_per_s=CURVE.tokens_per_s(64, plant.prefill_per_decode),
        own_tokens_per_s=found.own_tokens_per_s,
        backlog=found.backlog,
    )


def test_chats_are_offered_as_they_come_while_they_come_and_jobs_fill_the_rest() -> None:
    found = seen(load())
    assert found.backlog
    assert 0.4 < found.share < 0.6
    (live,) = found.interactive
    assert live.load.arrivals_per_s == pytest.approx(1.5, rel=0.1)
    assert live.load.backlog_tokens == 250
    (batch,) = found.others
    assert batch.slo.tpot_ms == 200 and batch.slo.ttft_ms is None


def test_where_nothing_waits_all_share_one_queue_and_the_rate_has_all_it_asks_for() -> None:
    few = load(traffic={"live": CHATS, "batch": structs.replace(JOBS, waiting_share=0.0)})
    found = seen(few)
    assert not found.backlog
    (live,) = found.interactive
    assert live.load.backlog_tokens is None
    assert live.load.arrivals_per_s > 5
    assert outlook(few).utility(64, 64) >= 0.5


def test_an_intent_without_recent_requests_is_left_out() -> None:
    found = seen(load(traffic={"batch": JOBS}))
    assert found.interactive == () and len(found.others) == 1


def test_beside_phases_of_chats_a_law_is_expected_to_beat_both_its_values() -> None:
    found = outlook(load())
    law = found.utility(16, 64)
    assert law > found.utility(16, 16) + 0.05
    assert law > found.utility(64, 64) + 0.05
    assert all(0.0 <= found.utility(cap, 64) <= 1.0 for cap in LADDER)


def test_a_cap_close_to_a_limit_is_expected_to_meet_it_sometimes() -> None:
    found = outlook(load())
    (live,) = found.interactive
    shares = [found.attainment(live, cap) for cap in (16, 32, 64)]
    assert shares[0] > shares[1] >= shares[2] == 0.0
    assert 0.0 < shares[0] < 1.0


def test_values_are_measured_by_the_middle_of_the_seconds_that_ran_near_them() -> None:
    def at(batch: int, factor: float) -> StepMoments:
        return StepMoments(n=20, b=20 * batch, t=round(20 * factor * CURVE.step_us(batch, 0.0)))

    points = [*[at(16, 1.1)] * 11, *[at(16, 5.0)] * 4, *[at(64, 1.0)] * 9, *[at(23, 1.0)] * 20]
    (only,) = measured(points, CURVE, LADDER, now_us=7)
    assert (only.value, only.at_us) == (16, 7)
    assert only.log_ratio == pytest.approx(0.0953, abs=1e-3)

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.config.sections import TrialSettings
from controller.plant.feasible import Assessed, Feasibility, Offer, allowed, assess
from controller.plant.laws import propose_law
from controller.plant.memory import Wall, predicted_bytes
from controller.plant.queueing import Load
from controller.plant.residual import Measured, Residual
from controller.plant.settings import PlantSettings
from controller.plant.step_curve import StepCurve
from policies.proposal import Proposal
from policies.settings import Setting
from policies.steps import steps_beyond
from signals.events import KvLayout
from signals.settings import Slo
from tests.plant.samples import CAP, LADDER, intents, plant_input

MODEL = PlantSettings()
CURVE = StepCurve(
    base_us=18_000.0, per_decode_us=1300.0, per_prefill_us=0.0, steps=1000, residual=0.0
)
LAYOUT = KvLayout(layers=30, kv_heads=3, head_dim=64, value_bits=16, block_tokens=16, blocks=2048)
WALL = Wall.of(LAYOUT, version="1")
LIVE = Offer(
    name="live",
    slo=Slo(ttft_ms=1000, tpot_ms=50, attainment=0.9),
    load=Load(arrivals_per_s=6.0, output_tokens=30.0, backlog_tokens=30.0),
)


def case(**changes: Any) -> Feasibility:
    plain = Feasibility(ladder=LADDER, now=8, baseline=8, tested=frozenset(LADDER), now_us=0)
    return msgspec.structs.replace(plain, **changes)


def of(value: int, **changes: Any) -> Assessed:
    return next(one for one in assess(case(**changes), MODEL) if one.value == value)


def test_what_is_not_known_refuses_nothing() -> None:
    assert allowed(case(), MODEL) == LADDER
    assert of(64).attainment == {}
    assert of(64).needed_bytes is None


def test_each_refusal_is_in_words_with_its_figures() -> None:
    memory = of(64, wall=WALL, context_tokens=600)
    assert not memory.allowed
    assert memory.why.startswith("64 sequences of 600 tokens would take 855 MiB of KV memory")
    assert memory.needed_bytes == predicted_bytes(LAYOUT, cap=64, context_tokens=600)
    far = of(64, tested=frozenset({4, 16}))
    assert far.why == "64 is 2 ladder values beyond what was tested (4 to 16), one is the most"
    slow = of(32, curve=CURVE, offers=(LIVE,))
    assert slow.why == (
        "32 is predicted to keep 0.0% of live within its limits, 90.0% is asked for"
    )


def test_the_baseline_and_what_is_in_force_are_allowed_whatever_is_predicted() -> None:
    hopeless = msgspec.structs.replace(LIVE, slo=Slo(tpot_ms=1, attainment=0.99))
    found = allowed(
        case(now=32, baseline=64, curve=CURVE, offers=(hopeless,), wall=WALL, context_tokens=2000),
        MODEL,
    )
    assert found == (32, 64)
    assert of(8, curve=CURVE, offers=(hopeless,)).why == "8 is in force"


def test_one_ladder_value_beyond_the_tested_ones_both_ways() -> None:
    assert allowed(case(tested=frozenset({8})), MODEL) == (4, 8, 16)
    assert allowed(case(tested=frozenset({8, 16})), MODEL) == (4, 8, 16, 32)


def test_a_residual_that_was_measured_takes_back_what_the_formula_promised() -> None:
    measured = [Measured(value=16, log_ratio=0.5, at_us=0, weight=20.0)]
    slower = Residual.of(measured, LADDER, now_us=0, model=MODEL)
    promised = allowed(case(curve=CURVE, offers=(LIVE,)), MODEL)
    left = allowed(case(curve=CURVE, offers=(LIVE,), residual=slower), MODEL)
    assert (max(promised), max(left)) == (16, 8)


@given(
    st.sampled_from(LADDER),
    st.sampled_from(LADDER),
    st.frozensets(st.sampled_from(LADDER)),
    st.floats(1, 4000),
    st.floats(0, 30),
    st.lists(st.tuples(st.sampled_from(LADDER), st.floats(1, 4000)), max_size=3),
)
def test_nothing_else_is_admitted_above_the_wall_or_far_from_what_was_tested(
    now: int,
    baseline: int,
    tested: frozenset[int],
    context: float,
    rate: float,
    life: list[tuple[int, float]],
) -> None:
    wall = WALL
    for cap, at_context in life:
        wall = wall.exhausted(cap=cap, context_tokens=at_context, now_us=0)
    offer = msgspec.structs.replace(LIVE, load=Load(arrivals_per_s=rate, output_tokens=30.0))
    found = allowed(
        case(
            now=now,
            baseline=baseline,
            tested=tested,
            curve=CURVE,
            offers=(offer,),
            wall=wall,
            context_tokens=context,
        ),
        MODEL,
    )
    assert {now, baseline} <= set(found)
    for value in set(found) - {now, baseline}:
        assert predicted_bytes(LAYOUT, cap=value, context_tokens=context) < wall.bytes
        assert steps_beyond(value, {now, baseline, *tested}, LADDER) <= 1


@pytest.mark.parametrize(("context", "top"), [(100.0, 64), (700.0, 32), (1500.0, 16)])
def test_a_law_opens_up_no_further_than_memory_has_room(context: float, top: int) -> None:
    found = propose_law(
        "chat",
        intents(32),
        plant_input(kv=LAYOUT, context_tokens=context),
        spec=CAP,
        ladder=LADDER,
        before=Setting(value=8),
        limits=TrialSettings(),
    )
    assert isinstance(found, Proposal), found
    assert found.setting.law is not None
    assert found.setting.law.default == top

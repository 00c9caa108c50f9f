"""Control laws: bounded, quick to rise, slow to fall, never anywhere else."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.knobs import KnobSpec
from policies.laws import MAX_STEPS, MAX_WINDOW_S, Law, LawState, LawStep, advance, check, start
from signals.errors import Rejected
from tests.policies.choices import CAPACITY, LOW, laws

SPEC = KnobSpec(
    name="active_cap", unit="sequences", low=LOW, capacity=CAPACITY, boot=8, effect_delay_s=1.0
)
seen = st.lists(
    st.tuples(st.integers(0, 120).map(lambda n: n / 10), st.integers(0, 50).map(lambda n: n / 10)),
    max_size=40,
)


def run(law: Law, path: list[tuple[float, float]]) -> list[tuple[float, float, LawState, LawState]]:
    """(x, now, state before, state after) for each step of a path of (x, seconds since)."""
    state, now_s, steps = start(law, now_s=0.0), 0.0, []
    for x, passed_s in path:
        now_s += passed_s
        after = advance(law, state, x=x, now_s=now_s)
        steps.append((x, now_s, state, after))
        state = after
    return steps


@given(laws(), seen)
def test_a_law_only_ever_takes_its_own_values(law: Law, path: list[tuple[float, float]]) -> None:
    assert start(law, now_s=0.0).value == law.default
    for _, now_s, before, after in run(law, path):
        assert after.value == law.values()[after.level]
        assert LOW <= after.value <= CAPACITY
        assert after is before or (after.level != before.level and after.since_s == now_s)


@given(laws(), seen)
def test_a_higher_step_is_entered_at_once(law: Law, path: list[tuple[float, float]]) -> None:
    for x, _, _, after in run(law, path):
        assert after.level >= sum(1 for step in law.steps if x > step.above)


@given(laws(), seen)
def test_a_step_is_left_only_below_its_hysteresis_and_after_its_dwell(
    law: Law, path: list[tuple[float, float]]
) -> None:
    for x, now_s, before, after in run(law, path):
        if after.level < before.level:
            assert now_s - before.since_s >= law.min_dwell_s
            for step in law.steps[after.level : before.level]:
                assert x <= step.above - law.hysteresis


@given(laws(), seen)
def test_a_step_is_left_as_soon_as_both_allow_it(law: Law, path: list[tuple[float, float]]) -> None:
    for x, now_s, before, after in run(law, path):
        if before.level and now_s - before.since_s >= law.min_dwell_s:
            held = [step for step in law.steps[: before.level] if x > step.above - law.hysteresis]
            entered = sum(1 for step in law.steps if x > step.above)
            assert after.level == max(entered, len(held))


@given(laws(), seen)
def test_without_hysteresis_and_dwell_a_law_is_a_step_function_of_its_variable(
    law: Law, path: list[tuple[float, float]]
) -> None:
    plain = msgspec.structs.replace(law, hysteresis=0.0, min_dwell_s=0.0)
    for x, _, _, after in run(plain, path):
        assert after.level == sum(1 for step in plain.steps if x > step.above)


@given(laws(), seen, st.integers(0, 120).map(lambda n: n / 10))
def test_under_a_constant_variable_a_law_comes_to_rest(
    law: Law, path: list[tuple[float, float]], x: float
) -> None:
    states = [after for _, _, _, after in run(law, [*path, (x, 1000.0), (x, 1000.0), (x, 1000.0)])]
    assert states[-1] is states[-2] is states[-3]


@given(laws(), st.integers(1, 40))
def test_a_variable_that_only_rattles_inside_the_hysteresis_moves_nothing(
    law: Law, rattles: int
) -> None:
    """No oscillation: once a step is in, x between its level minus hysteresis and it keeps it."""
    wide = msgspec.structs.replace(law, hysteresis=law.hysteresis + 1.0)
    top = wide.steps[-1].above
    state = advance(wide, start(wide, now_s=0.0), x=top + 0.1, now_s=0.0)
    assert state.level == len(wide.steps)
    for number in range(rattles):
        x = top + 0.1 if number % 2 else top - wide.hysteresis + 0.05
        assert advance(wide, state, x=x, now_s=1000.0 * number) is state


@given(laws())
def test_a_sound_law_passes_its_check(law: Law) -> None:
    check(law, spec_check, field="law")
    assert len(law.values()) == len(law.steps) + 1


def spec_check(value: int, field: str) -> None:
    SPEC.check(value, field=field)


SOUND: dict[str, Any] = {
    "variable": "arrivals",
    "window_s": 2.0,
    "default": 64,
    "steps": (LawStep(above=0.0, value=8), LawStep(above=5.0, value=4)),
}


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"steps": ()}, "law.steps"),
        (
            {"steps": tuple(LawStep(above=float(n), value=1) for n in range(MAX_STEPS + 1))},
            "law.steps",
        ),
        ({"steps": (LawStep(above=1.0, value=8), LawStep(above=1.0, value=4))}, "law.steps"),
        ({"steps": (LawStep(above=-0.5, value=8),)}, "law.steps"),
        ({"steps": (LawStep(above=0.0, value=CAPACITY + 1),)}, "law.steps[0].value"),
        ({"default": 0}, "law.default"),
        ({"window_s": 0.0}, "law.window_s"),
        ({"window_s": MAX_WINDOW_S + 1}, "law.window_s"),
        ({"window_s": float("nan")}, "law.window_s"),
        ({"hysteresis": -1.0}, "law"),
        ({"hysteresis": float("inf")}, "law"),
        ({"min_dwell_s": float("nan")}, "law"),
        ({"min_dwell_s": MAX_WINDOW_S + 1}, "law"),
        ({"steps": (LawStep(above=float("nan"), value=8),)}, "law.steps"),
        ({"steps": (LawStep(above=float("inf"), value=8),)}, "law.steps"),
    ],
)
def test_a_law_that_is_not_bounded_ordered_and_in_range_is_refused(
    fields: dict[str, Any], where: str
) -> None:
    with pytest.raises(Rejected) as refused:
        check(Law(**(SOUND | fields)), spec_check, field="law")
    assert refused.value.field == where

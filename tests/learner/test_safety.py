"""What may be chosen at all: the mask, stability, the safety budget."""

from __future__ import annotations

import math

import numpy as np
import pytest

from controller.learner.credit import HOUR, Ledger, within_budget
from controller.learner.masking import (
    beyond,
    guardrail_refusals,
    menu_of,
    narrowed,
    tried_by_place,
)
from controller.learner.port import Action, Arm, Menu
from controller.learner.settings import LearnerSettings
from controller.learner.stability import Load, Moved, steady, torn
from policies.guarding import Around
from policies.knobs import KnobSpec
from policies.limits import Limits
from policies.policy import Origin
from policies.settings import Setting
from policies.steps import Direction
from signals.errors import Rejected
from tests.learner.menus import CAPS, LADDER, SECOND, WITH_LAW, law, menu

ORIGIN = Origin(kind="learner", name="linear_thompson")
SPEC = KnobSpec(name="active_cap", unit="requests", low=1, capacity=64, boot=8, effect_delay_s=1.0)


WAYS: tuple[Direction, ...] = ("up", "down", "both", "none")


def caps_menu(tried: set[int], *, refusals: dict[str, str] | None = None) -> Menu:
    return menu_of(
        WITH_LAW,
        baseline=CAPS[0].id,
        current=CAPS[1].id,
        tried={"active_cap": tried},
        refusals=refusals,
    )


def test_at_most_one_ladder_step_beyond_what_was_tried_is_allowed() -> None:
    assert caps_menu({2, 4}).mask == (True, True, True, False, False, False)
    assert caps_menu({2, 8}).mask == (True, True, True, True, False, False)
    assert "2 ladder values beyond" in caps_menu({2, 4}).why[CAPS[3].id]


def test_the_values_of_a_law_count_as_tried() -> None:
    in_force = law(16, 4)
    found = menu_of((*WITH_LAW, in_force), baseline=CAPS[0].id, current=in_force.id, tried={})
    assert found.mask == (True,) * 7
    assert beyond(law(32, 2), {"active_cap": {2, 4, 16}}) == ""


def test_the_baseline_and_what_is_in_force_stay_whatever_refuses_them() -> None:
    everything = {action.id: "the wall" for action in WITH_LAW}
    found = caps_menu({2, 32}, refusals=everything)
    assert found.allowed == (0, 1)
    assert narrowed(caps_menu({2, 32}), everything).allowed == (0, 1)
    assert set(found.why.values()) == {"the wall"}
    with pytest.raises(Rejected, match="not among"):
        menu_of(CAPS, baseline="spam", current=CAPS[0].id, tried={})


def test_the_guardrails_mask_what_they_would_deny_as_a_policy() -> None:
    refusals = guardrail_refusals(
        CAPS,
        target="chat",
        before={"active_cap": Setting(value=8)},
        origin=ORIGIN,
        around=Around(policies=(), specs={"active_cap": SPEC}),
        limits={"active_cap": Limits(ladder=LADDER, low=4, high=16)},
        now_us=0,
    )
    assert set(refusals) == {CAPS[0].id, CAPS[4].id}
    assert refusals[CAPS[0].id].startswith("bounds: ")
    assert tried_by_place(Around(policies=(), specs={}), CAPS) == {"active_cap": set()}


def test_a_limit_that_is_not_reached_does_not_grow() -> None:
    standing = menu(WITH_LAW, baseline=2)
    idle, unknown, busy = (Load(binding=b) for b in ({"active_cap": 0.1}, {}, {"active_cap": 0.9}))
    for load in (idle, unknown):
        assert steady(standing, load, {}, now_us=0).allowed == (0, 1, 2)
    assert steady(standing, busy, {}, now_us=0).allowed == (0, 1, 2, 3, 4, 5)


def test_nothing_grows_while_requests_time_out() -> None:
    load = Load(binding={"active_cap": 1.0}, timeout_share=0.05)
    found = steady(menu(WITH_LAW, baseline=2), load, {}, now_us=0)
    assert found.allowed == (0, 1, 2)
    assert "time out" in found.why[CAPS[3].id]


@pytest.mark.parametrize(
    ("way", "passed_s", "allowed"),
    [
        ("up", 60, (2,)),
        ("up", 900, (2, 3, 4)),
        ("down", 900, (0, 1, 2)),
        ("both", 900, (2,)),
        ("up", 3600, (0, 1, 2, 3, 4)),
    ],
)
def test_dwell_first_and_then_no_change_of_direction(
    way: str, passed_s: int, allowed: tuple[int, ...]
) -> None:
    moved = {"active_cap": Moved(at_us=0, way=way)}  # type: ignore[arg-type]
    load = Load(binding={"active_cap": 1.0})
    found = steady(menu(CAPS, baseline=2), load, moved, now_us=passed_s * SECOND)
    assert found.allowed == allowed


def test_knobs_of_one_resource_move_as_one_vector() -> None:
    pair = [Arm.on(LADDER, place, Setting(value=4)) for place in ("pool@live", "pool@batch")]
    shared = frozenset({"pool@live", "pool@batch"})
    half, whole = Action.of(pair[0]), Action.of(*pair)
    assert "leaves out pool@batch" in torn(half, [shared])
    assert torn(whole, [shared]) == "" and torn(CAPS[0], [shared]) == ""
    found = steady(menu((whole, half)), Load(binding={}), {}, now_us=0, shared=[shared])
    assert found.allowed == (0,)


def test_whatever_stability_masks_what_is_in_force_stays() -> None:
    """Random standings, seeds 0 to 199."""
    for seed in range(200):
        rng = np.random.default_rng(seed)
        at, base = int(rng.integers(5)), int(rng.integers(5))
        given = Menu(actions=CAPS, mask=(True,) * 5, baseline=base, current=at)
        way = WAYS[int(rng.integers(4))]
        moved = {"active_cap": Moved(at_us=0, way=way)}
        load = Load(binding={"active_cap": float(rng.random())}, timeout_share=rng.random() / 50)
        found = steady(given, load, moved, now_us=int(rng.integers(7200)) * SECOND)
        assert found.mask[at] and found.mask[base], seed
        grown = [index for index in found.allowed if index > at and index != base]
        assert not grown or (load.timeout_share <= 0.01 and load.binding["active_cap"] >= 0.2), seed


def test_nothing_is_dared_before_something_was_earned() -> None:
    assert not Ledger().allows(at_us=0, span_s=60, baseline=0.8, floor=0.8)
    ledger = Ledger()
    for unit in range(40):
        ledger = ledger.earned(at_us=unit * 60 * SECOND, span_s=60, utility=0.8, baseline=0.8)
    assert ledger.allows(at_us=HOUR, span_s=60, baseline=0.8, floor=0.8)
    assert not ledger.allows(at_us=HOUR, span_s=600, baseline=0.8, floor=0.8)


def test_credit_expires() -> None:
    ledger = Ledger().earned(at_us=0, span_s=3600, utility=1.0, baseline=0.1)
    assert ledger.balance(at_us=2 * HOUR) == pytest.approx((1.0 - 0.097) * 3600)
    assert ledger.balance(at_us=24 * HOUR) > 0 == ledger.balance(at_us=25 * HOUR)


def test_a_loss_that_outlives_the_credit_that_paid_for_it_is_not_allowed() -> None:
    """The credit ends in an hour; the loss would stay a day, and the baseline earns nothing."""
    ledger = Ledger().earned(at_us=0, span_s=3600, utility=1.0, baseline=0.5)
    asked = {"at_us": 23 * HOUR, "span_s": 600.0, "baseline": 0.5}
    assert not ledger.allows(**asked, floor=0.0)  # type: ignore[arg-type]
    assert not ledger.allows(**asked, floor=0.5)  # type: ignore[arg-type]
    assert ledger.allows(at_us=2 * HOUR, span_s=600.0, baseline=0.5, floor=0.5)


SMALL = LearnerSettings(horizon_s=1800.0, min_unit_s=10.0)


@pytest.mark.parametrize("seed", range(12))
def test_the_promise_is_kept_whatever_the_explored_actions_earn(seed: int) -> None:
    """Explores whenever it may; utilities are the worst, or drawn. Checked after every unit."""
    rng = np.random.default_rng(seed)
    high = float(rng.uniform(0.1, 1.0))
    low, span_s = 0.8 * high, float(rng.choice([10.0, 15.0, 20.0]))
    cruel = rng.random() < 0.5
    ledger, now_us, explored, since_us = Ledger.of(SMALL), 0, 0, 1800 * SECOND
    units: list[tuple[int, float, float]] = []
    for _ in range(400):
        baseline = float(rng.uniform(low, high))
        dare = ledger.allows(at_us=now_us, span_s=span_s, baseline=high, floor=low)
        explored += dare
        utility = (0.0 if cruel else float(rng.random())) if dare else baseline
        ledger = ledger.earned(at_us=now_us, span_s=span_s, utility=utility, baseline=baseline)
        now_us += round(span_s * SECOND)
        units.append((now_us, utility, baseline))
        window = [unit for unit in units if unit[0] > now_us - since_us]
        earned, due = (math.fsum(unit[at] for unit in window) for at in (1, 2))
        assert earned >= 0.97 * due - 1e-9, (seed, len(units))
    assert explored > 0 and len(ledger.entries) <= 1800 / span_s


def test_without_credit_the_learner_stays_where_it_was_judged() -> None:
    asked = {"at_us": 0, "span_s": 60.0, "baseline": 0.8, "floor": 0.8}
    given = Menu(actions=CAPS, mask=(True,) * 5, baseline=0, current=2)
    kept = within_budget(given, Ledger(), **asked, current_is_kept=True)  # type: ignore[arg-type]
    assert kept.allowed == (0, 2)
    bare = within_budget(given, Ledger(), **asked, current_is_kept=False)  # type: ignore[arg-type]
    assert bare.allowed == (0,)
    assert "budget is spent" in bare.why[CAPS[2].id]


def test_with_credit_the_menu_is_left_alone() -> None:
    rich = Ledger().earned(at_us=0, span_s=86_400, utility=0.9, baseline=0.5)
    found = within_budget(
        menu(CAPS),
        rich,
        at_us=24 * HOUR,
        span_s=60.0,
        baseline=0.5,
        floor=0.5,
        current_is_kept=False,
    )
    assert found == menu(CAPS)


def test_units_that_overlap_or_are_too_short_are_refused() -> None:
    ledger = Ledger().earned(at_us=0, span_s=60, utility=0.5, baseline=0.5)
    with pytest.raises(Rejected, match="follow each other"):
        ledger.earned(at_us=30 * SECOND, span_s=60, utility=0.5, baseline=0.5)
    with pytest.raises(Rejected, match="too short"):
        ledger.earned(at_us=HOUR, span_s=1, utility=0.5, baseline=0.5)
    with pytest.raises(Rejected, match=r"0\.\.1"):
        ledger.earned(at_us=HOUR, span_s=60, utility=-0.5, baseline=0.5)
    with pytest.raises(Rejected, match="usable"):
        ledger.earned(at_us=HOUR, span_s=60, utility=math.nan, baseline=0.5)

"""Indicators at a fixed age: which values count, for whom, and how many exposures they take."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.random import PCG64, Generator

from controller.judge.aged import aged_difference, aged_means
from controller.judge.confirmation import ruled
from controller.judge.eprocess import guard_e_value, pessimistic_mean
from controller.judge.sample_size import POWER, exposures_needed, two_proportions
from controller.judge.verdict import rule_on
from controller.trials import AgedPlan
from policies.runtime_config import Arm
from signals.events import MICROS
from signals.features.model import Outcome, RequestRow
from tests.judge.builders import block, plan, request, trial

AGED = AgedPlan(metric="copied", margin=0.05, age_s=600, low=0.0, high=1.0)


def aged(**changes: Any) -> AgedPlan:
    return msgspec.structs.replace(AGED, **changes)


def said(row: RequestRow, value: float, after_s: float, **changes: Any) -> Outcome:
    one = Outcome(
        request_id=row.request_id,
        metric="copied",
        value=value,
        time_us=row.arrival_us + round(after_s * MICROS),
        producer="shop",
        event_id="e1",
    )
    return msgspec.structs.replace(one, **changes)


def rows(*arms: str) -> list[RequestRow]:
    return [request(10.0 + n, arm=arm, session_id=f"s{n}") for n, arm in enumerate(arms)]


def means(of: AgedPlan, every: list[RequestRow], *outcomes: Outcome) -> dict[Arm, float]:
    frozen = plan(design="session_split", scope="live")
    return aged_means(frozen, of, block(), every, outcomes)


def test_only_what_was_said_within_the_age_counts_and_silence_is_a_zero() -> None:
    every = rows("candidate", "candidate", "baseline")
    found = means(AGED, every, said(every[0], 1.0, 600.0), said(every[1], 1.0, 600.1))
    assert found == {"candidate": 0.5, "baseline": 0.0}
    assert aged_difference([found]) == 0.5


def test_where_silence_says_nothing_an_arm_of_silent_users_has_no_value() -> None:
    every = rows("candidate", "baseline")
    found = means(aged(absent_zero=False), every, said(every[0], 0.8, 5.0))
    assert found == {"candidate": 0.8}
    assert aged_difference([found]) is None


def test_the_last_word_of_a_producer_counts_sums_add_up_and_lower_may_be_better() -> None:
    every = rows("candidate")
    twice = (said(every[0], 0.3, 5.0), said(every[0], 0.5, 9.0, event_id="e2"))
    assert means(AGED, every, *twice) == {"candidate": 0.5}
    assert means(aged(adds=True, sign=-1), every, *twice) == {"candidate": -0.8}
    assert means(aged(adds=True, high=0.6), every, *twice) == {"candidate": 0.6}


def test_a_producer_whose_share_is_capped_has_no_say_and_others_are_averaged() -> None:
    every = rows("candidate")
    both = (said(every[0], 1.0, 5.0), said(every[0], 0.0, 6.0, producer="app", event_id="e2"))
    assert means(AGED, every, *both) == {"candidate": 0.5}
    assert means(aged(capped=("app",)), every, *both) == {"candidate": 1.0}


def test_other_intents_washouts_late_arrivals_and_sessions_that_came_before_do_not_count() -> None:
    inside = request(10.0, arm="candidate", session_id="new")
    others = [
        request(11.0, arm="candidate", session_id="x", intent="batch"),
        request(5.0, arm="candidate", session_id="y"),
        request(27.0, arm="candidate", session_id="z"),
        request(12.0, arm="candidate", session_id="old"),
    ]
    frozen = plan(design="session_split", scope="live")
    outcomes = [said(row, 1.0, 5.0) for row in others]
    found = aged_means(frozen, AGED, block(), [inside, *others], outcomes, {"old"})
    assert found == {"candidate": 0.0}
    assert aged_means(frozen, AGED, block(void="cut"), [inside], []) == {}


@pytest.mark.parametrize(
    ("d", "shown", "found"),
    [
        (-0.3, True, "harmed"),
        (-0.3, False, "harmed"),
        (0.0, True, "shown"),
        (-0.05, True, "not_shown"),
        (-0.05, False, "no_harm"),
    ],
)
def test_a_confirmation_is_harm_no_harm_or_what_was_to_be_shown(
    d: float, shown: bool, found: str
) -> None:
    spread = 0.3 if d == -0.05 else 0.02
    ds = [d + (spread if n % 2 else -spread) for n in range(14)]
    one = ruled(plan(aged=(AGED,)), aged(shown=shown), ds)
    assert (one.found, one.stays) == (found, found in ("shown", "no_harm"))
    assert one.words.startswith("copied ") and "14 units" in one.words


def test_without_feedback_in_both_arms_nothing_is_confirmed() -> None:
    one = ruled(plan(aged=(AGED,)), AGED, [])
    assert (one.found, one.stays) == ("no_data", False)


def test_a_verdict_for_a_change_waits_until_as_many_are_exposed_as_it_takes() -> None:
    assert rule_on(trial([0.4] * 10)).verdict == "IMPROVED"
    needs = plan(least_units=14)
    waits = rule_on(trial([0.4] * 10, plan=needs))
    assert waits.verdict is None and "at least 14 units" in waits.words
    assert rule_on(trial([0.4] * 14, plan=needs)).verdict == "IMPROVED"
    assert rule_on(trial([0.4] * 20, plan=plan(least_units=21))).verdict == "IMPROVED", (
        "no more units come"
    )


def test_units_that_are_not_ripe_do_not_end_a_trial() -> None:
    closed = trial([0.0] * 20)
    assert rule_on(closed).verdict == "INCONCLUSIVE"
    bare = [msgspec.structs.replace(one, ripe=False, d={}) for one in closed.units]
    assert rule_on(msgspec.structs.replace(closed, units=tuple(bare))).verdict is None


def test_the_classic_count_is_that_of_the_textbook() -> None:
    """Fleiss's example: .25 against .40, α .01 one-sided, power .95, without the correction."""
    assert two_proportions(0.25, 0.15, alpha=0.005, power=0.95) == pytest.approx(337, abs=2)
    assert two_proportions(0.1, 0.02, alpha=0.05) < two_proportions(0.1, 0.01, alpha=0.05)
    assert two_proportions(0.9, 0.02, alpha=0.05) == two_proportions(0.1, 0.02, alpha=0.05)


@pytest.mark.parametrize(
    ("p", "margin", "units"), [(0.2, 0.05, 20), (0.05, 0.02, 40), (0.5, 0.1, 12)]
)
def test_so_many_exposures_do_show_that_nothing_changed(
    p: float, margin: float, units: int
) -> None:
    rng, trials = Generator(PCG64(3)), 200
    each = exposures_needed(p, margin, alpha=0.05) // units
    passed = 0
    for _ in range(trials):
        d = (rng.binomial(each, p, units) - rng.binomial(each, p, units)) / each
        shown = guard_e_value(list(d), margin=margin) >= 1 / 0.05
        passed += shown and pessimistic_mean(list(np.asarray(d) + margin)) > 0
    assert passed / trials > POWER - 0.1, f"seed 3: {passed} of {trials}"

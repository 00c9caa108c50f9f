"""The back-off after undone moves doubles, is capped, and decays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.blacklist import left_s, offences, wait_s
from tests.policies.proposals import NOW_US, SECOND_US, limited, policy, wish

DAY_S = 86_400.0


def wait(*ages_s: float, cooldown_s: float = 600.0) -> float:
    offences_us = [NOW_US - round(age_s * SECOND_US) for age_s in ages_s]
    return wait_s(offences_us, forgive_s=21_600.0, cooldown_s=cooldown_s, most_s=DAY_S)


def test_the_wait_doubles_with_each_offence_up_to_a_day() -> None:
    assert [wait(*[0.0] * n) for n in range(6)] == [0.0, 600.0, 1200.0, 2400.0, 4800.0, 9600.0]
    assert wait(*[0.0] * 60) == DAY_S


def test_an_offence_counts_half_after_the_half_life() -> None:
    assert wait(0.0, 21_600.0) == pytest.approx(600 * 2**0.5)
    assert wait(0.0, 30 * DAY_S) == pytest.approx(600.0)


@given(st.lists(st.floats(0, 10 * DAY_S), min_size=1, max_size=20))
def test_the_wait_is_between_the_cooldown_and_the_cap_and_grows_with_each_offence(
    ages_s: list[float],
) -> None:
    found = wait(*ages_s)
    assert 600.0 * 0.999 <= found <= DAY_S
    assert wait(*ages_s, min(ages_s)) >= found


def test_only_reverted_moves_of_the_same_kind_direction_and_place_count() -> None:
    mine = policy(16, id="pol_mine", state="reverted")
    others = (
        policy(16, state="rejected"),
        policy(16, state="expired"),
        policy(4, state="reverted"),
        policy(16, state="reverted", knob="step_token_budget"),
        policy(16, state="reverted", scope="live"),
        policy(16, state="reverted", emergency=True, verdict="HARMED"),
    )
    assert offences(wish(32), (*others, mine)) == [mine]


def test_an_emergency_s_release_is_no_offence_but_its_harm_is() -> None:
    again = wish(4, emergency=True)
    released = policy(4, state="reverted", emergency=True)
    harmful = policy(4, state="reverted", emergency=True, verdict="HARMED")
    assert left_s(again, [released], limited(), NOW_US) == 0.0
    assert left_s(again, [harmful], limited(), NOW_US) == 540.0

"""The settings contract in simulated time: laws, expiries, holds, trials, lowered caps."""

from __future__ import annotations

import pytest

from policies.laws import Law, LawStep
from policies.runtime_config import Fallback, Patch, SettingChange, TrialStamp
from signals.errors import Conflict, Rejected
from tests.simulated.loads import SECOND_US, cap, change, chats, fleet, mixed

LONGEST_STEP_S = 0.07
LAW = Law(
    variable="arrivals",
    class_="interactive",
    window_s=2.0,
    default=32,
    steps=(LawStep(above=0, value=4),),
)


def law(one: Law = LAW, **fields: object) -> SettingChange:
    return SettingChange(knob="active_cap", law=one, **fields)  # type: ignore[arg-type]


def test_a_law_acts_within_a_step_of_the_arrival_and_of_its_window_closing() -> None:
    one = fleet(chats(10.03, 11.0, 30.0, output=400))
    replica = one.replica("r0")
    change(replica, law())
    before = replica.view()
    one.run(60 * SECOND_US)
    moves = [entry for entry in replica.view().changes if entry.cause == "law"]
    assert [entry.after for entry in moves] == [4, 32, 4, 32]
    for entry, due_s in zip(moves, (10.03, 13.0, 30.0, 32.0), strict=True):
        assert 0 <= entry.at - due_s < LONGEST_STEP_S
    assert replica.view().digest == before.digest


@pytest.mark.parametrize("seed", [1, 2])
def test_a_law_left_to_run_is_where_looking_at_every_boundary_would_have_put_it(seed: int) -> None:
    steps = (LawStep(above=3, value=8), LawStep(above=6, value=2))
    busy = Law(
        variable="arrivals",
        class_=None,
        window_s=1.5,
        default=32,
        steps=steps,
        hysteresis=1.0,
        min_dwell_s=0.4,
    )
    moves = []
    for slices in (1, 3000):
        one = fleet(mixed(seed, per_s=3.0))
        change(one.replica("r0"), law(busy))
        for part in range(1, slices + 1):
            one.run(60 * SECOND_US * part // slices)
            if slices > 1:
                one.replica("r0").settings.look(one.replica("r0").at_us)
        entries = one.replica("r0").view().changes
        moves.append([(entry.cause, entry.after, round(entry.at, 6)) for entry in entries])
    assert moves[0] == moves[1], f"seed {seed}"
    assert len(moves[0]) > 20


def test_an_expiry_falls_back_within_a_step_and_ends_the_trial_in_the_stamp() -> None:
    one = fleet(mixed(1))
    replica = one.replica("r0")
    one.run(SECOND_US)
    trial = TrialStamp(id="t", block=3, arm="candidate")
    fallback = Fallback(value=7, policy_id="below")
    applied = change(replica, cap(2, expires_in_s=5.0, fallback=fallback), trial=trial)
    one.run(20 * SECOND_US)
    last = replica.view().changes[-1]
    assert (last.cause, last.before, last.after) == ("expiry", 2, 7)
    assert 0 <= last.at - (applied.applied_at or 0) - 5.0 < LONGEST_STEP_S
    rows = one.requests(-1, one.now_us)
    under = [row for row in rows if row.trial == "t"]
    assert {(row.block, row.arm) for row in under} == {(3, "candidate")}
    assert all(1.0 <= row.arrival_us / SECOND_US <= last.at for row in under)
    assert {row.trial for row in rows if row.arrival_us / SECOND_US > last.at} == {""}


def test_a_hold_freezes_laws_and_expiries_until_it_is_released() -> None:
    one = fleet(chats(3.0, 20.0))
    replica = one.replica("r0")
    change(replica, law(), hold=True)
    budget = SettingChange(knob="step_token_budget", value=64, expires_in_s=5.0)
    change(replica, budget)
    one.run(15 * SECOND_US)
    seen = replica.view()
    assert [setting.value for setting in seen.settings] == [32, 64]
    change(replica, hold=False)
    one.run(19 * SECOND_US)
    assert replica.settings.values()["step_token_budget"] == 64
    one.run(21 * SECOND_US)
    assert replica.settings.values() == {"active_cap": 4, "step_token_budget": 512}


def test_a_lowered_cap_drains_or_preempts_at_once_and_loses_no_token() -> None:
    left = {}
    for shrink in ("drain", "preempt"):
        one = fleet(mixed(2, per_s=30.0, batch=1.0))
        replica = one.replica("r0")
        one.run(3 * SECOND_US)
        assert len(replica.lines.running) > 20
        assert change(replica, cap(5, shrink=shrink)).settings[0].draining
        one.run(3 * SECOND_US + 100_000)
        left[shrink] = len(replica.lines.running)
        one.run(60 * SECOND_US)
        assert len(replica.lines.running) == 5
        served = [row for row in one.requests(-1, 3 * SECOND_US) if row.status == "ok"]
        assert all(row.output_tokens == row.max_tokens for row in served)
    assert left["preempt"] <= 5 < left["drain"]


def test_stale_and_fenced_changes_are_refused_and_a_repeated_one_is_answered_again() -> None:
    one = fleet(chats(1.0))
    replica = one.replica("r0")
    seen = replica.view()
    patch = Patch(change_id="a", epoch=2, expected=seen.expected, settings=(cap(3),))
    first = replica.patch(patch)
    assert replica.patch(patch) == first
    with pytest.raises(Conflict, match="stale"):
        replica.patch(Patch(change_id="b", epoch=2, expected=seen.expected))
    with pytest.raises(Conflict, match="fenced"):
        replica.patch(Patch(change_id="c", epoch=1, expected=first.expected))
    with pytest.raises(Rejected):
        change(replica, cap(10_000))
    assert replica.settings.values()["active_cap"] == 3

"""Each guardrail by itself: its name, its words, the figures that it compared, whom it binds."""

from __future__ import annotations

from datetime import time
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from policies.budgets import ScopeTrials, TrialBudget
from policies.changes import DeclaredChange
from policies.guarding import MemoryWall
from policies.guardrails import RAILS, Around, Case, Finding, findings, may_begin
from policies.limits import FreezeWindow, Limits
from policies.overrides import Override
from policies.policy import Policy
from policies.proposal import Proposal
from policies.settings import Setting
from tests.policies.proposals import (
    CAP,
    NOW_US,
    PERSON,
    PLANT,
    SECOND_US,
    law,
    limited,
    policy,
    wish,
)

HOUR_US = 3600 * SECOND_US
MIB = 2**20


def found(
    rail: str,
    proposal: Proposal,
    *policies: Policy,
    limits: Limits | None = None,
    now_us: int = NOW_US,
    **around: Any,
) -> Finding:
    """What the guardrail of that name says; of two with one name, the first that stops it."""
    case = Case(
        proposal=proposal,
        around=Around(policies=policies, specs={CAP.name: CAP}, **around),
        limits=limits or limited(),
        now_us=now_us,
    )
    named = [one for one in findings(case) if one.guardrail == rail]
    stopping = [one for one in named if one.outcome in ("deny", "wait")]
    return (stopping or named)[0]


def kept(value: int = 16, **changes: Any) -> Policy:
    return policy(value, **{"state": "kept", "applied_us": NOW_US - 100 * SECOND_US, **changes})


def test_the_engine_s_own_range_denies_with_the_range() -> None:
    denied = found("knob", wish(65))
    assert (denied.outcome, denied.figures) == ("deny", {"low": 1.0, "capacity": 64.0})


def test_a_scope_that_the_knob_has_not_is_denied() -> None:
    denied = found("knob", wish(16, scope="live"))
    assert denied.outcome == "deny"
    assert "active_cap has no scope 'live'" in denied.words


def test_declared_bounds_bind_everybody() -> None:
    limits = limited(low=4, high=32)
    for origin in (PERSON, PLANT):
        denied = found("bounds", wish(64, origin=origin), limits=limits)
        assert (denied.outcome, denied.figures) == (
            "deny",
            {"low": 4.0, "high": 32.0, "value": 64.0},
        )
    assert found("bounds", wish(2, emergency=True), limits=limits).outcome == "deny"
    assert found("bounds", wish(law(2)), limits=limits).figures["value"] == 64.0
    assert found("bounds", wish(32), limits=limits).outcome == "pass"


def test_a_change_goes_only_so_many_ladder_values() -> None:
    limits = limited(step=2)
    denied = found("step", wish(64, before=8, origin=PLANT), limits=limits)
    assert (denied.outcome, denied.figures) == ("deny", {"steps": 3.0, "allowed": 2.0})
    assert "active_cap 8 → 64: 3 ladder values at once; allowed 2" in denied.words
    assert found("step", wish(law(8), before=8), limits=limits).outcome == "deny"
    assert found("step", wish(32, before=8), limits=limits).outcome == "pass"
    assert found("step", wish(64, before=8, origin=PERSON), limits=limits).outcome == "exempt"


def test_a_direction_does_not_flip_at_once() -> None:
    limits = limited(flip_s=300.0)
    up = kept(16, before=8)
    denied = found("flip", wish(8, before=16), up, limits=limits)
    assert (denied.outcome, denied.figures) == ("deny", {"left_s": 200.0, "flip_s": 300.0})
    assert found("flip", wish(32, before=16), up, limits=limits).outcome == "pass"
    later = kept(16, before=8, applied_us=NOW_US - 300 * SECOND_US)
    assert found("flip", wish(8, before=16), later, limits=limits).outcome == "pass"
    emergency = kept(16, before=8, state="in_force", emergency=True)
    assert found("flip", wish(8, before=16), emergency, limits=limits).outcome == "pass"
    assert found("flip", wish(8, before=16, origin=PERSON), up, limits=limits).outcome == "exempt"


def test_an_undone_move_stands_in_the_way_of_the_same_direction() -> None:
    undone = policy(16, state="reverted", verdict="HARMED")
    denied = found("blacklist", wish(32, before=8), undone)
    assert (denied.outcome, denied.figures) == ("deny", {"undone": 1.0, "left_s": 540.0})
    assert found("blacklist", wish(4, before=8), undone).outcome == "pass"
    assert found("blacklist", wish(law(8), before=8, origin=PLANT), undone).outcome == "pass"
    refused = policy(16, state="rejected")
    assert found("blacklist", wish(32, before=8), refused).outcome == "pass"


def test_each_further_undone_move_doubles_the_wait() -> None:
    undone = [
        policy(16, id=f"pol_{n}", state="reverted", updated_us=NOW_US - n * SECOND_US)
        for n in range(3)
    ]
    denied = found("blacklist", wish(32, before=8), *undone)
    assert denied.figures["undone"] == 3.0
    assert denied.figures["left_s"] == pytest.approx(2400, rel=0.001)


def test_a_place_moves_only_so_many_ladder_values_an_hour() -> None:
    limits = limited(steps_per_hour=3)
    moves = [kept(16, id="pol_1", before=8), kept(32, id="pol_2", before=16)]
    assert found("place_rate", wish(64, before=32), *moves, limits=limits).outcome == "pass"
    denied = found("place_rate", wish(8, before=32), *moves, limits=limits)
    assert (denied.outcome, denied.figures) == (
        "deny",
        {"moved": 2.0, "steps": 2.0, "allowed": 3.0},
    )
    old = [msgspec.structs.replace(one, applied_us=NOW_US - HOUR_US) for one in moves]
    assert found("place_rate", wish(8, before=32), *old, limits=limits).outcome == "pass"


def test_a_place_rests_after_each_change_in_and_out() -> None:
    limits = limited(dwell_s=120.0)
    denied = found("dwell", wish(32, before=16), kept(16), limits=limits)
    assert (denied.outcome, denied.figures) == ("deny", {"left_s": 20.0, "dwell_s": 120.0})
    out = policy(
        16,
        state="reverted",
        applied_us=NOW_US - HOUR_US,
        undo_us=NOW_US - 61 * SECOND_US,
        updated_us=NOW_US - 60 * SECOND_US,
    )
    assert found("dwell", wish(32), out, limits=limits).figures["left_s"] == 60.0
    assert found("dwell", wish(32, origin=PERSON), out, limits=limits).outcome == "exempt"


def test_a_change_reaches_only_so_many_replicas() -> None:
    denied = found("blast", wish(16), limits=limited(max_replicas=4), replicas=5)
    assert denied.outcome == "deny"
    assert denied.figures["replicas"] == 5.0 and denied.figures["max_replicas"] == 4.0
    by_person = found("blast", wish(16, origin=PERSON), limits=limited(max_replicas=4), replicas=5)
    assert by_person.outcome == "deny"


def test_only_so_many_places_are_off_the_baseline() -> None:
    limits = limited(max_kept=1)
    elsewhere = kept(16, knob="step_token_budget")
    denied = found("blast", wish(16), elsewhere, limits=limits)
    assert (denied.outcome, denied.figures["places"], denied.figures["max_kept"]) == (
        "deny",
        2.0,
        1.0,
    )
    assert found("blast", wish(32, before=16), kept(16), limits=limits).outcome == "pass"


def rush_hours() -> Limits:
    """NOW_US is Tuesday 14 November 2023, 22:13:20 UTC: 23:13:20 in Berlin."""
    window = FreezeWindow(
        days=("tue",),
        begins=time(23),
        ends=time(1),
        zone=ZoneInfo("Europe/Berlin"),
        zone_name="Europe/Berlin",
    )
    return limited(windows=(window,))


def test_in_a_freeze_window_a_change_waits_by_the_clocks_of_its_zone() -> None:
    waits = found("freeze", wish(16, origin=PERSON), limits=rush_hours())
    assert waits.outcome == "wait"
    assert waits.figures == {"left_s": 6400.0}
    assert "tue 23:00-01:00 Europe/Berlin" in waits.words
    assert found("freeze", wish(4, emergency=True), limits=rush_hours()).outcome == "exempt"
    over = NOW_US + 6400 * SECOND_US
    assert found("freeze", wish(16), limits=rush_hours(), now_us=over).outcome == "pass"


def test_a_declared_change_makes_trials_wait_until_it_has_settled() -> None:
    deploy = DeclaredChange(
        id="chg_1", target="chat", kind="deploy", words="v12", by="key_1", from_us=NOW_US - 1
    )
    waits = found("change", wish(16, origin=PERSON), changes=(deploy,))
    assert (waits.outcome, waits.words) == ("wait", "chg_1 (deploy: v12) is open")
    ended = msgspec.structs.replace(deploy, until_us=NOW_US)
    settling = found("change", wish(16), changes=(ended,), settle_us=300 * SECOND_US)
    assert (settling.outcome, settling.figures) == ("wait", {"left_s": 300.0})
    assert found("change", wish(16), changes=(ended,)).outcome == "pass"
    elsewhere = msgspec.structs.replace(deploy, target="other")
    assert found("change", wish(16), changes=(elsewhere,)).outcome == "pass"
    called_off = msgspec.structs.replace(deploy, until_us=NOW_US - 1)
    assert found("change", wish(16), changes=(called_off,), settle_us=HOUR_US).outcome == "pass"


@pytest.mark.parametrize("kind", ["pin", "force", "freeze"])
def test_what_a_person_has_fixed_waits_even_for_an_emergency(kind: Any) -> None:
    one = Override(
        id="ovr_1",
        target="chat",
        kind=kind,
        knob="active_cap",
        setting=None if kind == "freeze" else Setting(value=8),
        reason="mine",
        by="key_1",
        created_us=NOW_US,
        expires_us=NOW_US + 60 * SECOND_US,
    )
    for proposal in (wish(16), wish(16, origin=PERSON), wish(4, emergency=True)):
        waits = found("override", proposal, overrides=(one,))
        assert (waits.outcome, waits.figures) == ("wait", {"left_s": 60.0})
        assert "ovr_1" in waits.words
    later = NOW_US + 60 * SECOND_US
    assert found("override", wish(16), overrides=(one,), now_us=later).outcome == "pass"


def test_one_trial_per_target() -> None:
    waits = found("trial", wish(16, origin=PERSON), trial="pol_9")
    assert (waits.outcome, waits.figures) == ("wait", {"trials": 1.0, "allowed": 1.0})
    assert waits.words == "pol_9 is on trial"


def test_nothing_begins_beside_an_emergency_or_beside_another_moving_place() -> None:
    acting = policy(4, knob="step_token_budget", state="in_force", emergency=True)
    assert found("emergency", wish(16), acting).outcome == "wait"
    moving = policy(4, knob="step_token_budget", state="reverting")
    waits = found("moving", wish(16), moving)
    assert (waits.outcome, waits.figures) == ("wait", {"places": 1.0, "allowed": 1.0})
    assert found("moving", wish(16), moving, limits=limited(max_moving=2)).outcome == "pass"


def test_a_policy_does_not_stand_in_its_own_way() -> None:
    own = policy(16, state="approved")
    around = Around(policies=(own,), specs={CAP.name: CAP}, trial=own.id)
    assert may_begin(own, around, limits=limited(), now_us=NOW_US) is None


def test_a_scope_begins_only_so_many_trials_a_day_unless_a_person_asks() -> None:
    ago_us = [NOW_US - hours * HOUR_US for hours in (25, 23, 2)]
    spent = {"target": ScopeTrials(began_us=tuple(ago_us))}
    budget = TrialBudget(per_day=2, scopes=spent)
    denied = found("trial_budget", wish(16), budget=budget)
    assert denied.outcome == "deny"
    assert denied.figures == {"begun": 2.0, "allowed": 2.0, "left_s": 3600.0}
    assert "2 trials of scope target began within 24 h; allowed 2; next in 3600 s" in denied.words
    later = found("trial_budget", wish(16), budget=budget, now_us=NOW_US + HOUR_US)
    assert (later.outcome, later.figures["begun"]) == ("pass", 1.0)
    assert budget.answer("live", NOW_US)[0] == ""
    assert found("trial_budget", wish(16, origin=PERSON), budget=budget).outcome == "exempt"
    assert found("trial_budget", wish(16, emergency=True), budget=budget).outcome == "exempt"
    waits = may_begin(
        policy(),
        Around(policies=(), specs={CAP.name: CAP}, budget=budget),
        limits=limited(),
        now_us=NOW_US,
    )
    assert waits is not None and waits.guardrail == "trial_budget"


def test_a_trial_waits_for_the_end_of_a_block_of_the_holdback() -> None:
    waits = found("holdback", wish(16, origin=PERSON), held_s=42.0)
    assert (waits.outcome, waits.figures) == ("wait", {"left_s": 42.0})
    assert found("holdback", wish(16)).outcome == "pass"
    assert found("holdback", wish(16, emergency=True), held_s=42.0).outcome == "exempt"


def test_a_stream_that_has_spent_its_level_waits_for_the_next() -> None:
    poor = ScopeTrials(level=5e-5, renews_us=NOW_US + HOUR_US)
    budget = TrialBudget(kind="fdr", least_level=1e-4, scopes={"target": poor})
    denied = found("trial_budget", wish(16), budget=budget)
    assert denied.outcome == "deny"
    assert denied.figures == {"level": 5e-5, "least": 1e-4, "left_s": 3600.0}
    renewed = found("trial_budget", wish(16), budget=budget, now_us=NOW_US + HOUR_US)
    assert renewed.outcome == "pass"


def test_nobody_goes_beyond_the_memory_at_which_the_engine_died() -> None:
    wall = MemoryWall(
        knob=CAP.name,
        each_bytes=MIB,
        allowed_bytes=20 * MIB,
        wall_bytes=25 * MIB,
        context_tokens=300.0,
    )
    for proposal in (wish(32), wish(32, origin=PERSON), wish(32, emergency=True)):
        denied = found("wall", proposal, wall=wall)
        assert denied.outcome == "deny"
        assert denied.figures["needed_bytes"] == 32.0 * MIB
        assert "32 MiB of KV memory; 20 MiB is allowed below 25 MiB" in denied.words
    assert found("wall", wish(16), wall=wall).outcome == "pass"
    down = wish(32, before=64)
    assert found("wall", down, wall=wall).outcome == "pass"
    other = MemoryWall(**{**msgspec.to_builtins(wall), "knob": "step_token_budget"})
    assert found("wall", wish(32), wall=other).outcome == "pass"


def test_no_trial_begins_while_a_drift_alarm_stands() -> None:
    alarm: dict[str, Any] = {"drift": "ttft:live is off", "drift_figures": {"ttft:live": 3.5}}
    for proposal in (wish(16), wish(16, origin=PERSON)):
        waits = found("drift", proposal, **alarm)
        assert (waits.outcome, waits.words) == ("wait", "ttft:live is off")
        assert waits.figures == {"ttft:live": 3.5}
    assert found("drift", wish(4, emergency=True), **alarm).outcome == "exempt"
    assert found("drift", wish(16)).outcome == "pass"


def test_every_guardrail_is_tested_by_name_and_says_what_it_asks() -> None:
    here = {rail.name for rail in RAILS}
    elsewhere = {"ladder", "duplicate", "cooldown", "pending", "rate"}
    mine = {"knob", "bounds", "step", "flip", "blacklist", "place_rate", "dwell", "blast"}
    mine |= {"freeze", "change", "override", "trial", "emergency", "moving", "drift", "wall"}
    mine |= {"trial_budget", "holdback"}
    assert here == mine | elsewhere
    assert all((rail.check.__doc__ or "").strip() for rail in RAILS)

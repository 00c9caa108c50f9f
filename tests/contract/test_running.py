"""``/v1/runtime_config`` while time passes and work runs: expiry, laws, hold, lowering. Any engine.

These tests wait for real seconds of the engine's own clock; each asks for as few as it can.
"""

from __future__ import annotations

import time

from tests.contract.conftest import Config, Control, shown
from tests.contract.engines import EngineUnderTest
from tests.engine_telemetry.ingesting import wait

WINDOW_S = 1.0


def law(default: int, present: int) -> Config:
    return {
        "variable": "arrivals",
        "class": "interactive",
        "window_s": WINDOW_S,
        "default": default,
        "steps": [{"above": 0, "value": present}],
    }


def put_in_force(control: Control, default: int, present: int) -> Config:
    """A law, once the interactive arrivals of earlier tests have left its window."""
    control.patch({"knob": "active_cap", "law": law(default, present)})
    wait.until(lambda: control.cap()["value"] == default, "no interactive arrivals are left")
    return control.get()


def boot_of(control: Control) -> int:
    return int(next(s["boot"] for s in control.get()["knobs"] if s["name"] == "active_cap"))


def test_a_setting_expires_on_the_engines_own_clock_to_the_boot_value(control: Control) -> None:
    applied = control.patch(
        {"knob": "active_cap", "value": 2, "policy_id": "p", "expires_in_s": 0.5}
    )
    cap = shown(applied, "active_cap")
    assert 0.4 < cap["expires_in_s"] <= 0.5
    assert cap["next_change_at"] > applied["engine_time"]
    wait.until(lambda: control.cap()["value"] == boot_of(control), "the setting expires")
    seen = control.get()
    assert seen["version"] == applied["version"] + 1
    assert seen["digest"] != applied["digest"]
    last = seen["changes"][-1]
    assert (last["cause"], last["before"], last["policy_id"]) == ("expiry", 2, "p")
    assert 0.5 <= last["at"] - applied["applied_at"] < 1.5


def test_a_setting_expires_to_the_fallback_value(control: Control) -> None:
    fallback = {"value": 3, "policy_id": "below"}
    control.patch({"knob": "active_cap", "value": 2, "expires_in_s": 0.3, "fallback": fallback})
    wait.until(lambda: control.cap()["value"] == 3, "the fallback is in force")
    cap = control.cap()
    assert (cap["policy_id"], cap["expires_in_s"]) == ("below", None)
    last = control.get()["changes"][-1]
    assert (last["cause"], last["after"], last["holder"]) == ("expiry", 3, "below")


def test_a_setting_expires_to_a_fallback_law_that_then_runs(
    control: Control, engine_under_test: EngineUnderTest
) -> None:
    fallback = {"law": law(default=4, present=1), "policy_id": "law"}
    control.patch({"knob": "active_cap", "value": 2, "expires_in_s": 0.3, "fallback": fallback})
    wait.until(lambda: control.cap()["value"] == 4, "the law is in force")
    assert control.cap()["law"]["default"] == 4
    engine_under_test.offer(1, 1, "interactive").answers()
    assert control.cap()["value"] == 1


def test_a_law_switches_within_a_second_of_the_first_interactive_arrival_and_needs_nobody(
    control: Control, engine_under_test: EngineUnderTest
) -> None:
    applied = put_in_force(control, default=4, present=1)
    busy = engine_under_test.offer(2, 40, "batch")
    wait.until(lambda: engine_under_test.running() > 0, "the engine is busy")
    # From here on nobody talks to the control listener until the law has gone there and back.
    sent_at = time.time()
    engine_under_test.offer(1, 1, "interactive").answers()
    busy.answers()
    time.sleep(WINDOW_S + 0.5)
    moves = [c for c in control.get()["changes"] if c["seq"] > applied["changes"][-1]["seq"]]
    assert [(c["cause"], c["before"], c["after"]) for c in moves] == [("law", 4, 1), ("law", 1, 4)]
    assert 0 <= moves[0]["at"] - sent_at < 1.0
    assert WINDOW_S * 0.9 < moves[1]["at"] - moves[0]["at"] < WINDOW_S + 1.0


def test_a_laws_moves_change_neither_version_nor_digest(
    control: Control, engine_under_test: EngineUnderTest
) -> None:
    applied = put_in_force(control, default=4, present=1)
    engine_under_test.offer(1, 1, "interactive").answers()
    seen = control.get()
    assert shown(seen, "active_cap")["value"] == 1
    assert (seen["version"], seen["digest"]) == (applied["version"], applied["digest"])


def test_batch_arrivals_leave_a_law_on_interactive_ones_alone(
    control: Control, engine_under_test: EngineUnderTest
) -> None:
    put_in_force(control, default=4, present=1)
    engine_under_test.offer(1, 1, "batch").answers()
    assert control.cap()["value"] == 4


def test_a_hold_suspends_an_expiry_and_its_remainder_runs_after_release(control: Control) -> None:
    control.patch({"knob": "active_cap", "value": 2, "expires_in_s": 0.6})
    held = control.patch(hold=True)
    left_s = shown(held, "active_cap")["expires_in_s"]
    time.sleep(1.0)
    cap = control.cap()
    assert (cap["value"], cap["expires_in_s"], cap["next_change_at"]) == (2, left_s, None)
    released = control.patch(hold=False)
    wait.until(lambda: control.cap()["value"] != 2, "the setting expires after release")
    expired = control.get()["changes"][-1]
    assert expired["cause"] == "expiry"
    assert left_s * 0.9 <= expired["at"] - released["applied_at"] < left_s + 1.0


def test_a_hold_freezes_a_law_at_its_present_value(
    control: Control, engine_under_test: EngineUnderTest
) -> None:
    put_in_force(control, default=4, present=1)
    control.patch(hold=True)
    engine_under_test.offer(1, 1, "interactive").answers()
    assert control.cap()["value"] == 4
    control.patch(hold=False)
    engine_under_test.offer(1, 1, "interactive").answers()
    assert control.cap()["value"] == 1


def test_lowering_a_cap_drains_and_loses_nothing(
    control: Control, engine_under_test: EngineUnderTest
) -> None:
    offered = engine_under_test.offer(4, 48, "batch")
    wait.until(lambda: engine_under_test.running() == 4, "all four run")
    lowered = control.patch({"knob": "active_cap", "value": 1, "shrink": "drain"})
    cap = shown(lowered, "active_cap")
    assert (cap["value"], cap["draining"]) == (1, True)
    assert engine_under_test.running() > 1
    answers = offered.answers()
    assert [answer.tokens for answer in answers] == [48] * 4
    wait.until(lambda: not control.cap()["draining"], "the cap has drained")


def test_lowering_a_cap_by_preemption_frees_slots_at_once_and_loses_nothing(
    control: Control, engine_under_test: EngineUnderTest
) -> None:
    undisturbed = engine_under_test.offer(4, 48, "batch").answers()
    offered = engine_under_test.offer(4, 48, "batch")
    wait.until(lambda: engine_under_test.running() == 4, "all four run")
    control.patch({"knob": "active_cap", "value": 1, "shrink": "preempt"})
    wait.until(lambda: engine_under_test.running() <= 1, "slots are freed")
    assert control.cap()["draining"] is False
    control.patch({"knob": "active_cap", "value": 4})
    answers = offered.answers()
    assert [answer.tokens for answer in answers] == [48] * 4
    assert [answer.text for answer in answers] == [answer.text for answer in undisturbed]

"""Targets: what they have and should have, and the operator's verbs."""

from __future__ import annotations

from pathlib import Path

from controller.cli import status
from engine.generation import CLASSES
from engine.knobs import embedded_knobs
from engine.settings_book import SettingsBook
from engine.settings_in_force import EngineIdentity
from policies.runtime_config import Patch, SessionSplit, SettingChange, TrialStamp
from tests.api.plane import Plane

REASON = {"reason": "a test"}


def test_a_glance_shows_knobs_modes_trial_and_replicas(plane: Plane) -> None:
    approved = plane.approved(16)
    plane.world.run(2)
    found = plane.get("/v1/targets/chat")
    cap = next(knob for knob in found["knobs"] if knob["knob"] == "active_cap")
    assert cap["mode"] == "observe"
    assert cap["managed_by"] is None
    assert cap["ladder"] == [2, 4, 8, 16, 32, 64]
    assert cap["observed"]["value"] in (8, 16)
    assert found["trial"]["policy_id"] == approved["id"]
    assert found["trial"]["alpha"] == 0.05
    assert found["replicas"][0]["differs"] == []
    assert found["attainment"].keys() == {"live", "batch"}


def test_settings_show_baseline_desired_and_observed(plane: Plane) -> None:
    found = plane.get("/v1/targets/chat/settings")
    assert found["baseline"]["settings"]["active_cap"]["value"] == 8
    assert found["desired"]["settings"]["active_cap"]["words"] == "8"
    observed = found["replicas"][0]["observed"]
    assert found["replicas"][0]["differs"] == []
    assert {one["knob"]: one["value"] for one in observed["settings"]}["active_cap"] == 8


def test_an_engine_that_does_not_answer_is_shown_as_such(plane: Plane) -> None:
    plane.world.engine.reachable = False
    plane.world.now_s += 5
    found = plane.get("/v1/targets/chat")
    assert found["knobs"] == []
    assert found["replicas"][0]["reachable"] is False
    assert "does not answer" in found["replicas"][0]["problem"]


def test_nothing_can_be_proposed_to_an_engine_that_does_not_answer(plane: Plane) -> None:
    plane.world.engine.reachable = False
    plane.world.now_s += 100
    refused = plane.proposed(16)
    assert (refused.status, refused.headers["retry-after"]) == (503, "1")


def test_a_mode_set_over_rest_holds_until_it_is_set_again(plane: Plane) -> None:
    path = "/v1/targets/chat/knobs/active_cap"
    changed = plane.call("operator", "PATCH", path, {"mode": "approve"})
    assert (changed.status, changed["mode"]) == (200, "approve")
    knobs = plane.get("/v1/targets/chat")["knobs"]
    assert {one["knob"]: one["mode"] for one in knobs}["active_cap"] == "approve"
    refused = plane.call("operator", "PATCH", path, {"mode": "yes"})
    assert (refused.status, refused["field"]) == (422, "mode")


def test_a_mode_of_the_file_is_managed_by_it(tmp_path: Path) -> None:
    plane = Plane(tmp_path, mode="approve")
    plane.world.run(1)
    path = "/v1/targets/chat/knobs/active_cap"
    refused = plane.call("operator", "PATCH", path, {"mode": "auto"})
    assert (refused.status, refused["field"], refused["value"]) == (409, "managed_by", "file")
    plane.close()


def test_hold_is_read_back_listed_and_released(plane: Plane) -> None:
    held = plane.post("/v1/targets/chat/hold", REASON)
    assert (held.status, held["recorded"]) == (200, True)
    assert [one["ok"] for one in held["replicas"]] == [True]
    assert plane.world.engine.read().hold
    control = plane.get("/v1/targets/chat")["control"]
    assert (control["hold"], control["reason"]) == (True, "a test")
    released = plane.post("/v1/targets/chat/release", REASON)
    assert [one["ok"] for one in released["replicas"]] == [True]
    assert not plane.world.engine.read().hold
    assert plane.post("/v1/targets/chat/release", REASON).status == 409


def test_kill_lists_a_replica_that_it_could_not_reach(plane: Plane) -> None:
    plane.world.engine.reachable = False
    plane.world.now_s += 5
    killed = plane.post("/v1/targets/chat/kill", REASON)
    assert killed.status == 200
    assert [one["ok"] for one in killed["replicas"]] == [False]
    assert plane.get("/v1/targets/chat")["control"]["killed"] is True


def test_kill_without_a_target_kills_every_one(plane: Plane) -> None:
    killed = plane.post("/v1/kill", REASON)
    assert [one["target"] for one in killed["items"]] == ["chat"]
    assert plane.get("/v1/targets")["items"][0]["control"]["killed"] is True


def test_features_are_those_that_rules_see(plane: Plane) -> None:
    plane.world.run(20)
    values = plane.get("/v1/targets/chat/features")["features"]
    assert all(isinstance(value, float) for value in values.values())
    assert any(name.startswith("batch.") for name in values)


def test_declarations_are_shown_as_declared(plane: Plane) -> None:
    intents = {one["name"]: one for one in plane.get("/v1/intents?target=chat")["items"]}
    assert intents["live"]["class"] == "interactive"
    assert intents["batch"]["slo"]["e2e_ms"] == 2000
    metrics = {one["name"]: one for one in plane.get("/v1/metric-definitions")["items"]}
    assert (metrics["thumbs"]["low"], metrics["edited_resend"]["direction"]) == (-1.0, "down")
    assert plane.get("/v1/rules").body == {"items": [], "problem": None, "restart": []}
    assert plane.get("/v1/dead-letters").body == {"items": [], "next": None, "counts": {}}


def test_figures_are_there_for_prometheus(plane: Plane) -> None:
    plane.proposed()
    text = plane.get("/metrics").body
    assert 'trimtab_policies{state="pending",target="chat"} 1.0' in text
    assert 'trimtab_control{target="chat",what="hold"} 0.0' in text
    assert "trimtab_watermark_age_seconds" in text


def test_a_glance_shows_what_an_intent_and_the_candidates_sessions_have_instead(
    plane: Plane,
) -> None:
    knobs = embedded_knobs(
        capacity_active=64,
        capacity_budget=256,
        boot_active_cap=None,
        boot_step_token_budget=None,
        capacity_answer=512,
        intents=("live", "batch"),
    )
    engine = plane.world.engine
    identity = EngineIdentity(target="chat", replica=engine.replica, incarnation="with intents")
    engine.book = SettingsBook(
        identity, knobs, engine.meter, CLASSES, remembered=8, now=plane.world.instant()
    )
    split = TrialStamp(id="t1", block=0, split=SessionSplit(salt="s", share=0.5))
    own = SettingChange(knob="answer_tokens", scope="batch", value=100, policy_id="p1")
    theirs = SettingChange(
        knob="answer_tokens", scope="batch", value=64, arm="candidate", expires_in_s=90
    )
    expected = engine.read().expected
    engine.patch(
        Patch(change_id="c1", epoch=1, expected=expected, settings=(own, theirs), trial=split)
    )
    plane.world.now_s += 30
    found = plane.get("/v1/targets/chat")
    knob = next(knob for knob in found["knobs"] if knob["knob"] == "answer_tokens")
    (batch,) = knob["intents"]
    assert (batch["scope"], batch["observed"]["value"]) == ("batch", 100)
    assert batch["candidate_observed"]["value"] == 64
    lines = status.knobs(found["knobs"], held=False).splitlines()
    told = [line.split() for line in lines if line.startswith("answer_tokens@batch")]
    assert [(line[0], line[-3:]) for line in told] == [
        ("answer_tokens@batch", ["100", "tokens", "p1"]),
        ("answer_tokens@batch", ["64", "tokens", "-"]),
    ]

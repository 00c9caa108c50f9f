"""Overrides, baselines, rollback, detaching and export over REST."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.plane import Plane

REASON = {"reason": "a test"}


def body(kind: str = "pin", **more: Any) -> dict[str, Any]:
    """An override of the cap."""
    plain = {
        "target": "chat",
        "kind": kind,
        "knob": "active_cap",
        "setting": {"value": 4},
        "expires_in_s": 60,
        **REASON,
    }
    return {name: value for name, value in (plain | more).items() if value is not None}


def made(plane: Plane, kind: str = "pin", **more: Any) -> dict[str, Any]:
    """It, set."""
    answer = plane.post("/v1/overrides", body(kind, **more))
    assert answer.status == 201, answer.body
    return dict(answer.body)


def release(plane: Plane, override_id: str) -> None:
    answer = plane.call("operator", "DELETE", f"/v1/overrides/{override_id}", REASON)
    assert (answer.status, answer["state"]) == (200, "ended")


def test_a_pin_is_set_brought_to_the_engine_listed_and_released(plane: Plane) -> None:
    pin = made(plane)
    assert (pin["words"], pin["state"]) == ("pin active_cap = 4", "active")
    plane.world.run(1)
    assert plane.world.cap() == 4
    seen = plane.world.engine.read().setting("active_cap")
    assert seen is not None and seen.policy_id == pin["id"]
    assert seen.expires_in_s is not None and seen.fallback is not None
    assert (seen.fallback.value, seen.fallback.policy_id) == (8, None)
    listed = plane.get("/v1/overrides?target=chat&state=active")
    assert [one["id"] for one in listed["items"]] == [pin["id"]]
    shown = {k["knob"]: k["overrides"] for k in plane.get("/v1/targets/chat")["knobs"]}
    assert [one["id"] for one in shown["active_cap"]] == [pin["id"]]
    assert shown["step_token_budget"] == []
    release(plane, pin["id"])
    plane.world.run(1)
    assert plane.world.cap() == 8
    ended = plane.get(f"/v1/overrides/{pin['id']}")
    assert ended["cause"].startswith("released by operator: a test")
    again = plane.call("operator", "DELETE", f"/v1/overrides/{pin['id']}", REASON)
    assert again.status == 409


def test_a_pin_ends_in_the_engine_itself_and_the_loop_says_so(plane: Plane) -> None:
    pin = made(plane, expires_in_s=5)
    plane.world.run(1)
    plane.world.run(6, loop=False)
    assert plane.world.cap() == 8, "without any controller"
    plane.world.run(1)
    ended = plane.get(f"/v1/overrides/{pin['id']}")
    assert (ended["state"], ended["cause"], ended["ended_by"]) == ("ended", "expired", "loop")


def test_a_new_pin_takes_the_place_of_the_old_one(plane: Plane) -> None:
    old, new = made(plane), made(plane, setting={"value": 2})
    plane.world.run(1)
    assert plane.world.cap() == 2
    assert plane.get(f"/v1/overrides/{old['id']}")["cause"] == f"replaced by {new['id']}"


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"expires_in_s": 604_800}, "expires_in_s"),
        ({"expires_in_s": 0}, "expires_in_s"),
        ({"expires_in_s": None}, "expires_in_s"),
        ({"reason": ""}, "reason"),
        ({"knob": "no_such_knob"}, "knob"),
        ({"knob": None}, "knob"),
        ({"setting": {"value": 1000}}, "value"),
        ({"setting": None}, "setting"),
        ({"scope": "nobody"}, "scope"),
        ({"scope": "live"}, "scope"),
        ({"kind": "freeze"}, "setting"),
    ],
)
def test_what_can_t_be_set_is_refused_with_its_field(
    calm: Plane, more: dict[str, Any], field: str
) -> None:
    refused = calm.post("/v1/overrides", body(**more))
    assert (refused.status, refused["field"]) == (422, field)


def test_a_refusal_says_what_is_allowed(calm: Plane) -> None:
    refused = calm.post("/v1/overrides", body(expires_in_s=604_800))
    assert "86400" in refused["allowed"]
    assert "1..64" in calm.post("/v1/overrides", body(setting={"value": 65}))["allowed"]


def test_there_is_no_target_of_that_name(calm: Plane) -> None:
    assert calm.post("/v1/overrides", body(target="nobody")).status == 404
    assert calm.get("/v1/overrides/pin_0").status == 404


def test_a_pin_on_a_killed_target_is_refused_and_a_force_stands_on_it(plane: Plane) -> None:
    pin = made(plane)
    assert plane.post("/v1/targets/chat/kill", REASON).status == 200
    plane.world.run(1)
    assert plane.world.cap() == 8
    assert plane.get(f"/v1/overrides/{pin['id']}")["cause"] == "killed"
    refused = plane.post("/v1/overrides", body())
    assert (refused.status, refused["field"]) == (409, "kind")
    made(plane, "force", setting={"value": 3})
    plane.world.run(1)
    assert plane.world.cap() == 3


def test_the_baseline_of_a_file_belongs_to_the_file(calm: Plane) -> None:
    now = calm.get("/v1/targets/chat/baseline")
    assert (now["now"]["version"], now["now"]["managed_by"]) == (1, "file")
    assert now["now"]["words"] == {"active_cap": "8"}
    wanted = {"settings": {"active_cap": {"value": 4}}, **REASON}
    refused = calm.call("operator", "PUT", "/v1/targets/chat/baseline", wanted)
    assert (refused.status, refused["field"], refused["value"]) == (409, "managed_by", "file")


def test_all_targets_are_held_and_released_together(plane: Plane) -> None:
    held = plane.post("/v1/hold", REASON)
    assert [[r["ok"] for r in one["replicas"]] for one in held["items"]] == [[True]]
    assert plane.world.engine.read().hold
    released = plane.post("/v1/release", REASON)
    assert [one["target"] for one in released["items"]] == ["chat"]
    assert plane.post("/v1/release", REASON)["items"] == []


def test_a_rollback_is_shown_dry_and_then_done(plane: Plane) -> None:
    pin = made(plane)
    plane.world.run(1)
    path = "/v1/targets/chat/rollback"
    shown = plane.post(f"{path}?dry_run=true", REASON)
    assert (shown.status, shown["dry_run"], shown["replicas"]) == (200, True, [])
    assert (shown["before"]["active_cap"], shown["after"]["active_cap"]) == ("4", "8")
    assert list(shown["ended"]) == [pin["id"]]
    assert plane.get(f"/v1/overrides/{pin['id']}")["state"] == "active"
    done = plane.post(path, REASON)
    assert done["ended"] == shown["ended"]
    assert [one["ok"] for one in done["replicas"]] == [True]
    assert plane.world.cap() == 8


def test_a_rollback_to_a_time_that_nobody_recorded_says_since_when(plane: Plane) -> None:
    refused = plane.post("/v1/targets/chat/rollback", {"to": "1970-01-01T00:00:00Z", **REASON})
    assert (refused.status, refused["field"]) == (409, "at")
    assert "at or after" in refused["allowed"]
    to_come = plane.post("/v1/targets/chat/rollback", {"to": "2300-01-01T00:00:00Z", **REASON})
    assert to_come.status == 422


def test_a_detached_engine_is_left_alone_until_it_is_attached(plane: Plane) -> None:
    made(plane, expires_in_s=30)
    plane.world.run(1)
    left = plane.post("/v1/targets/chat/detach", {"expiries": "keep", **REASON})
    assert left.status == 200, left.body
    assert any("made to stay" in line for line in left["words"])
    plane.world.run(60)
    assert plane.world.cap() == 4
    assert plane.post("/v1/targets/chat/rollback", REASON).status == 409
    assert plane.post("/v1/overrides", body()).status == 409
    assert plane.post("/v1/targets/chat/detach", {"expiries": "let", **REASON}).status == 409
    for verb in ("hold", "kill"):
        assert plane.post(f"/v1/targets/chat/{verb}", REASON).status == 409
        assert plane.post(f"/v1/{verb}", {"target": "chat", **REASON}).status == 409
        assert plane.post(f"/v1/{verb}", REASON)["items"] == []
    assert plane.world.cap() == 4
    assert plane.post("/v1/targets/chat/attach", REASON).status == 200
    plane.world.run(1)
    assert plane.world.cap() == 8
    assert plane.post("/v1/targets/chat/attach", REASON).status == 409


def test_settings_are_exported_as_flags_and_as_json(plane: Plane) -> None:
    found = plane.get("/v1/targets/chat/settings/export?as=vllm-flags")
    assert found.status == 200, found.body
    assert "--max-num-seqs 8  # active_cap: baseline" in found["flags"]
    assert "--max-num-batched-tokens 256  # step_token_budget: boot value" in found["flags"]
    plain = plane.get("/v1/targets/chat/settings/export")
    assert (plain["digest"], plain["flags"]) == (found["digest"], None)
    assert plain["settings"]["active_cap"]["setting"]["value"] == 8
    at = plane.world.clock_us()
    plane.world.run(1)
    then = plane.get(f"/v1/targets/chat/settings/export?at={at}")
    assert then["digest"] == found["digest"]

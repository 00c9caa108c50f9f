"""``GET /v1/rules``: how each rule stands at the loop's last step."""

from __future__ import annotations

from pathlib import Path

from tests.api.plane import Plane

FAST = "batch.tokens_per_s > 300.0"


def test_rules_are_shown_with_their_timers_and_why_they_can_do_nothing(tmp_path: Path) -> None:
    fast = {"id": "fast", "when": FAST, "for": "3s", "propose": {"active_cap": "down"}}
    slow = {"id": "slow", "when": "live.kv_usage > 0.9", "propose": {"no_such_knob": 4}}
    plane = Plane(tmp_path, mode="observe", rules=[fast, slow])
    before = plane.get("/v1/rules?target=chat")["items"]
    assert [one["truth"] for one in before] == [None, None]
    plane.world.run(20)
    plane.loop.now = plane.world.loop.timers
    first, second = plane.get("/v1/rules?target=chat")["items"]
    assert (first["id"], first["truth"], first["for"]) == ("fast", "true", "3s")
    assert first["reads"] == ["batch.tokens_per_s"]
    assert first["fired_us"] - first["since_us"] >= 3_000_000
    assert first["quiet_until_us"] == first["fired_us"] + 60_000_000
    assert first["not_applicable"] is None
    assert (second["truth"], second["fired_us"]) == ("unknown", None)
    assert "no knob no_such_knob" in second["not_applicable"]
    assert plane.call("viewer", "GET", "/v1/rules?target=chat").status == 200
    plane.close()

"""``GET /v1/rules``: how each rule stands at the loop's last step."""

from __future__ import annotations

from pathlib import Path

import msgspec

from controller.api.rule_standing import JudgedShown
from controller.cli.rules import rule_in_words
from controller.judge.assignment_bets import Bets
from controller.rule_notes import Episode, RuleNotes, RuleStanding, encoded
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


def test_an_emergency_is_shown_with_what_its_delays_have_shown(tmp_path: Path) -> None:
    fast = {"id": "fast", "when": FAST, "emergency": True, "propose": {"active_cap": "down"}}
    plane = Plane(tmp_path, mode="auto", rules=[fast])
    digest, bets = plane.world.declared.rules.rules[0].digest, Bets()
    for ended, delayed in ((0.6, False), (0.9, True), (0.6, False)):
        bets = bets.after(outcome=ended, delayed=delayed, p=0.2, scale=0.1)
    harmful = RuleStanding(digest=digest, bets=bets, verdict="HARMED", said_us=7)
    runs = Episode(policy="pol_1", digest=digest, delayed=True, p=0.2, from_us=1, to_us=2)
    notes = RuleNotes(standing={"fast": harmful}, episodes={"fast": runs})
    with plane.world.store.write() as tx:
        tx.set_note("noted:chat", msgspec.json.encode({"rules": encoded(notes)}).decode())
    shown = plane.get("/v1/rules?target=chat")["items"][0]
    judged = msgspec.convert(shown["judged"], JudgedShown)
    assert (judged.verdict, judged.suspended, judged.running) == ("HARMED", True, True)
    assert (judged.prompt, judged.delayed, judged.episodes) == (0.6, 0.9, 3)
    told = rule_in_words(shown)
    assert "did HARM as an emergency" in told
    assert "0.600 in 2 prompt ones, 0.900 in 1 delayed ones" in told
    assert "an episode runs" in told
    other = msgspec.structs.replace(harmful, digest="as it read before")
    with plane.world.store.write() as tx:
        again = {"rules": encoded(RuleNotes(standing={"fast": other}))}
        tx.set_note("noted:chat", msgspec.json.encode(again).decode())
    anew = plane.get("/v1/rules?target=chat")["items"][0]["judged"]
    assert (anew["verdict"], anew["episodes"], anew["suspended"]) == (None, 0, False)
    plane.close()

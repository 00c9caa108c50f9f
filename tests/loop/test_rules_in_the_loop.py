"""Rules and the plant propose; the knob's mode decides how far that goes."""

from __future__ import annotations

from pathlib import Path

from policies.settings import Setting
from tests.loop.world import World

FAST = "batch.tokens_per_s > 300.0"
"""True in the world at a cap of 8, false at 4 and below."""


def anything(cap: int, intent: str) -> bool:
    """Nothing matters."""
    return True


def rule(**more: object) -> list[dict[str, object]]:
    """One rule that lowers the cap."""
    return [{"id": "fast", "when": FAST, "for": "3s", "propose": {"active_cap": "down"}, **more}]


def test_observe_mode_says_what_it_would_do_and_does_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything, mode="observe", rules=rule())
    world.run(40)
    of_rule = [p for p in world.policies("observed") if p.origin.kind == "rule"]
    assert of_rule[0].setting == Setting(value=4)
    assert "batch.tokens_per_s" in of_rule[0].reason
    assert world.cap() == 8
    assert not any(action.startswith("policy.appl") for action in world.actions())


def test_approve_mode_asks_a_person(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything, mode="approve", rules=rule())
    world.run(20)
    waiting = world.policies("pending")
    assert [p.setting for p in waiting if p.origin.kind == "rule"] == [Setting(value=4)]
    assert world.cap() == 8


def test_auto_mode_tries_what_a_rule_proposes(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything, mode="auto", rules=rule())
    world.run(20)
    assert [p.origin.name for p in world.policies("on_trial")] == ["fast"]


def test_the_plant_s_law_is_proposed_once_with_its_figures(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything, mode="approve")
    world.run(120)
    laws = [p for p in world.policies() if p.origin.kind == "plant"]
    assert len(laws) == 1
    law = laws[0].setting.law
    assert law is not None and law.default == 64
    assert law.steps[0].value == int(laws[0].evidence["cap"])
    assert laws[0].state == "pending"


def test_an_emergency_acts_at_once_expires_in_the_engine_and_ends_when_clear(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, quality=anything, mode="auto", rules=rule(emergency=True))
    world.run(20, until=lambda: world.cap() == 4)
    assert world.cap() == 4
    setting = world.engine.read().setting("active_cap")
    assert setting is not None and setting.expires_in_s is not None
    assert setting.fallback is not None and setting.fallback.value == 8
    world.run(0.2)
    assert [p.state for p in world.policies() if p.emergency] == ["in_force"]
    world.run(30, until=lambda: world.cap() == 8)
    ended = next(p for p in world.policies() if p.emergency)
    world.run(0.2)
    assert world.policy(ended.id).state == "reverted"
    assert "clear for" in (world.policy(ended.id).cause or "")


def test_an_emergency_that_need_not_hold_for_any_time_stays_while_its_condition_is_true(
    tmp_path: Path,
) -> None:
    always = {"when": "batch.tokens_per_s > 1.0", "for": "0s"}
    world = World(tmp_path, quality=anything, mode="auto", rules=rule(emergency=True, **always))
    world.run(20, until=lambda: world.cap() == 4)
    world.run(10)
    assert [p.state for p in world.policies() if p.emergency] == ["in_force"]
    assert world.cap() == 4


def test_an_emergency_outlives_no_dead_controller(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything, mode="auto", rules=rule(emergency=True))
    world.run(20, until=lambda: world.cap() == 4)
    world.run(world.declared.guardrails.emergency_s + 1, loop=False)
    assert world.cap() == 8


def test_an_emergency_pauses_the_trial_and_cuts_its_unit_against_the_arm_in_force(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, quality=anything, mode="auto", rules=rule(emergency=True))
    world.faster_with_cap = False
    world.run(10)
    policy = world.approved(Setting(value=16))
    world.run(15)
    assert world.policy(policy.id).state == "on_trial"
    world.faster_with_cap = True
    world.run(20, until=lambda: world.policy(policy.id).state == "paused")
    assert world.policy(policy.id).state == "paused"
    cut = world.trial().units[-1]
    assert cut.judged and abs(cut.d["U"]) == 1.0
    assert (cut.d["U"] < 0) == (cut.blocks[-1].arm == "candidate")


def test_an_emergency_in_approve_mode_waits_for_a_person(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything, mode="approve", rules=rule(emergency=True))
    world.run(20)
    assert [p.state for p in world.policies() if p.emergency] == ["pending"]
    assert world.cap() == 8

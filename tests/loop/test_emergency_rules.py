"""Emergency rules in the production step: delayed by chance, judged, released step by step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller.config.emergencies import EmergencySettings
from controller.judge.assignment_bets import Bets
from controller.notes import noted
from controller.rule_notes import (
    Episode,
    RuleNotes,
    RuleStanding,
    encoded,
    rule_notes,
    standing_of,
)
from controller.store.port import Decision
from policies.policy import Policy
from signals.features.model import WindowCounts, WindowKey, WindowRevision
from tests.loop.cases import FAST, anything
from tests.loop.plant import Rows
from tests.loop.world import World

ALWAYS = {"delayed_share": 0.5, "delay_s": 2.0, "horizon_s": 10.0}


class Attaining(Rows):
    """Windows in which a share of the live requests was good. None: nothing ended."""

    share: float | None = 0.8

    def windows(
        self, target: str, *, from_us: int, to_us: int, width_s: int = 5
    ) -> Sequence[WindowRevision]:
        if self.share is None:
            return ()
        width_us = width_s * 1_000_000
        starts = range(from_us - from_us % width_us, to_us, width_us)
        return [self._live(start_us, self.share) for start_us in starts]

    def _live(self, start_us: int, share: float) -> WindowRevision:
        return WindowRevision(
            cursor=1,
            key=WindowKey(
                target="chat",
                replica="r0",
                intent="live",
                digest="d",
                trial="",
                block=-1,
                start_us=start_us,
                width_s=5,
            ),
            revision=1,
            closed=True,
            incomplete=False,
            counts=WindowCounts(judged=100, good=round(100 * share)),
        )


def world_of(folder: Path, **settings: Any) -> World:
    """A rule that lowers the cap while batch is fast: at 8, not at 4."""
    rule = {"id": "fast", "when": FAST, "for": "1s", "emergency": True, "cooldown": "2s"}
    rules = [{**rule, "propose": {"active_cap": settings.pop("to", "down")}}]
    world = World(folder, quality=anything, mode="auto", rules=rules)
    limits = EmergencySettings(**{**ALWAYS, **settings})
    world.declared = msgspec.structs.replace(world.declared, emergencies=limits)
    world.rows = Attaining(world.engine_instant)
    world.store.close()
    world.start_controller()
    return world


def noting(world: World, found: RuleNotes) -> None:
    """Start the controller on what an earlier one had noted."""
    with world.store.write() as tx:
        kept = msgspec.json.encode({"rules": encoded(found)}).decode()
        tx.set_note("noted:chat", kept)
    world.store.close()
    world.start_controller()


def notes(world: World) -> RuleNotes:
    with world.store.read() as tx:
        return rule_notes(noted(tx, "chat"))


def decisions(world: World) -> list[Decision]:
    with world.store.read() as tx:
        found = tx.decisions(target="chat", limit=100)
    return [one for one in found if one.source == "rule:fast" and one.denied is None]


def emergencies(world: World) -> list[Policy]:
    found = [one for one in world.policies() if one.emergency and one.eases is None]
    return sorted(found, key=lambda one: one.id)


def test_a_coin_says_whether_it_acts_now_or_later_and_how_it_ended_is_bet_on(
    tmp_path: Path,
) -> None:
    world = world_of(tmp_path)
    world.run(75)
    told = {one.policy_id: one for one in decisions(world)}
    kinds = set()
    for policy in emergencies(world):
        decision = told[policy.id]
        if len(decision.actions) == 1:
            continue
        assert decision.actions == ("active_cap=4 now", "active_cap=4 after 2 s")
        assert decision.propensity == 0.5
        delayed = decision.chosen.endswith("after 2 s")
        kinds.add(delayed)
        assert (policy.begins_us is not None) == delayed
        if policy.applied_us is not None:
            assert ((policy.applied_us - policy.created_us) / 1e6 >= 2.0) == delayed
    assert kinds == {True, False}
    bets = notes(world).standing["fast"].bets
    assert bets.n >= 2
    assert (bets.prompt.n > 0, bets.delayed.n > 0) == (True, True)
    assert bets.prompt.mean == pytest.approx(0.8)
    assert bets.harmed == pytest.approx(1.0)
    assert world.actions().count("rule.episode") == bets.n


@pytest.mark.parametrize(
    ("settings", "share"), [({"delayed_share": 0.0}, 0.8), ({}, 0.3), ({}, None)]
)
def test_no_coin_where_none_is_wanted_things_are_bad_or_nothing_is_known(
    settings: dict[str, float], share: float | None, tmp_path: Path
) -> None:
    world = world_of(tmp_path, **settings)
    assert isinstance(world.rows, Attaining)
    world.rows.share = share
    world.run(8)
    assert [one.begins_us for one in emergencies(world)][:1] == [None]
    assert [one.propensity for one in decisions(world)][:1] == [1.0]
    assert notes(world).episodes == {}


def test_a_rule_that_did_harm_only_proposes_until_it_reads_otherwise(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    rule = world.declared.rules.rules[0]
    harmful = RuleStanding(digest=rule.digest, verdict="HARMED", said_us=1)
    noting(world, RuleNotes(standing={"fast": harmful}))
    world.run(8)
    assert emergencies(world) == []
    proposed = world.policies()
    assert proposed and not proposed[0].emergency
    assert "found to do harm" in proposed[0].reason
    other = msgspec.structs.replace(harmful, digest="of another text")
    assert standing_of(RuleNotes(standing={"fast": harmful}), rule).suspended
    assert not standing_of(RuleNotes(standing={"fast": other}), rule).suspended


def test_a_verdict_falls_once_is_told_and_ends_the_delays(tmp_path: Path) -> None:
    """Nine in ten of what it needs is known already; what runs now brings the rest."""
    world = world_of(tmp_path)
    rule, bets = world.declared.rules.rules[0], Bets()
    while bets.harmed < 90.0:
        for delayed in (False, False, True, False):
            ended = 0.9 if delayed else 0.6
            bets = bets.after(outcome=ended, delayed=delayed, p=0.5, scale=0.1)
    now_us = world.clock_us()
    running = Episode(
        policy="pol_1",
        digest=rule.digest,
        delayed=True,
        p=0.5,
        from_us=now_us,
        to_us=now_us + 10_000_000,
    )
    before = RuleNotes(
        episodes={"fast": running}, standing={"fast": RuleStanding(digest=rule.digest, bets=bets)}
    )
    noting(world, before)
    assert isinstance(world.rows, Attaining)
    world.rows.share = 0.95
    world.run(20)
    standing = notes(world).standing["fast"]
    assert (standing.verdict, standing.suspended) == ("HARMED", True), standing.words()
    with world.store.read() as tx:
        told = [one for one in tx.audit() if one.action == "rule.verdict"]
    assert [one.details["verdict"] for one in told] == ["HARMED"]
    assert notes(world).episodes == {}


def test_it_is_released_one_ladder_value_at_a_time(tmp_path: Path) -> None:
    world = world_of(tmp_path, to=2, delayed_share=0.0)
    caps: list[int] = []
    for _ in range(60):
        world.run(0.5)
        if not caps or caps[-1] != world.cap():
            caps.append(world.cap())
    assert caps[:4] == [8, 2, 4, 8]
    steps = [one for one in world.policies() if one.eases is not None]
    first = emergencies(world)[0]
    assert steps
    oldest = min(steps, key=lambda one: one.id)
    assert (oldest.eases, oldest.setting.value, oldest.expires_us) == (
        first.id,
        4,
        first.expires_us,
    )
    assert "one step back" in oldest.reason


def test_a_release_stops_where_it_is_when_the_condition_is_back(tmp_path: Path) -> None:
    """At 4 of 8 batch is fast again under this rule, so the rest is not given back."""
    rule = {
        "id": "fast",
        "when": "batch.tokens_per_s > 150.0",
        "for": "1s",
        "emergency": True,
        "cooldown": "600s",
        "propose": {"active_cap": 2},
    }
    world = World(tmp_path, quality=anything, mode="auto", rules=[rule])
    world.run(40)
    assert world.cap() == 4
    assert [one.eases is None for one in world.policies("in_force")] == [False]


def test_one_rule_s_release_does_not_lift_what_another_holds_down(tmp_path: Path) -> None:
    """The first acts from 32 to 4 and is eased; meanwhile the second, which is slower, acts."""

    def rule(name: str, above: float, for_s: int, cap: int) -> dict[str, object]:
        when = f"batch.tokens_per_s > {above}"
        told = {"id": name, "when": when, "for": f"{for_s}s", "cooldown": "600s"}
        return told | {"emergency": True, "propose": {"active_cap": cap}}

    both = [rule("soon", 400.0, 1, 4), rule("late", 50.0, 12, 2)]
    world = World(tmp_path, quality=anything, mode="auto", rules=both)
    target = world.declared.target.model_copy(update={"baseline": {"active_cap": 32}})
    prompt = EmergencySettings(delayed_share=0.0)
    world.declared = msgspec.structs.replace(world.declared, target=target, emergencies=prompt)
    world.store.close()
    world.start_controller()
    world.run(20, until=lambda: world.cap() == 2)
    world.run(1)
    assert [one.eases is None for one in world.policies("in_force")] == [True, False]
    world.run(30, until=lambda: world.cap() != 2)
    assert world.cap() == 2

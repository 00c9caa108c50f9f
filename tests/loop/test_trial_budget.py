"""How many trials a scope may begin: counted as they begin, earned back as they are kept."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from controller.config.guardrails import GuardrailSettings
from controller.config.sections import TrialSettings
from controller.rules.firing import Timers
from controller.state import Draft, LoopState
from controller.store.port import Control
from controller.trial import budget
from controller.trials import TrialPlan
from policies.policy import Origin
from policies.settings import Setting
from signals.events import MICROS
from tests.judge.builders import plan
from tests.loop.cases import anything
from tests.loop.world import ADA, World, declared
from tests.policies.proposals import PERSON, policy

DAY_US = 86_400 * MICROS
LEARNER = Origin(kind="learner", name="thompson")
RULE = [{"id": "idle", "when": "batch.waiting > 0.0", "for": "2s", "propose": {"active_cap": "up"}}]


class Life:
    """A scope's trials, one after the other, with what was noted between them."""

    def __init__(self, **trial: Any) -> None:
        self.declared = declared(alpha=0.01, budget="fdr", **trial)
        self.noted: dict[str, str] = {}
        self.begun = 0

    def trial(self, now_us: int, *, origin: Origin = LEARNER, kept: bool = False) -> TrialPlan:
        """The plan of a trial that begins now, as frozen."""
        self.begun += 1
        draft = self._draft(now_us)
        mine = policy(origin=origin, trial=f"tri_{self.begun}")
        frozen = budget.begin(draft, mine, plan(id=f"tri_{self.begun}", alpha=0.01))
        if kept:
            budget.keep(draft, mine)
        self.noted = draft.noted
        return frozen

    def left(self, now_us: int) -> tuple[float, int | None]:
        """What the next trial may be judged at, and from when on, if not now."""
        found = budget.budget_of(self.declared.trial, self.noted, now_us=now_us)
        return found.level("target"), found.next_us("target", now_us)

    def _draft(self, now_us: int) -> Draft:
        state = LoopState(
            declared=self.declared,
            policies=(),
            trial=None,
            control=Control(target="chat"),
            modes={},
            baseline={},
            overrides=(),
            last_reads={},
            timers=Timers(),
            ours="ctl.",
            noted=self.noted,
        )
        return Draft(state, now_us=now_us, rng=Random(1))


def test_a_trial_of_the_loop_s_is_frozen_at_what_its_stream_has_left() -> None:
    life = Life()
    alphas = [life.trial(n * MICROS).alpha for n in range(4)]
    assert alphas[0] == 0.01, "never more than the declared α"
    assert alphas[1:] == pytest.approx([0.0036081, 0.0018859, 0.0011902], rel=1e-4)


def test_a_kept_change_pays_for_those_that_follow() -> None:
    life = Life()
    for n in range(8):
        life.trial(n * MICROS)
    assert life.left(9 * MICROS)[0] < 0.0005
    life.trial(9 * MICROS, kept=True)
    assert life.trial(10 * MICROS).alpha == 0.01


def test_a_stream_of_successes_has_no_end() -> None:
    life = Life()
    assert {life.trial(n * MICROS, kept=True).alpha for n in range(100)} == {0.01}
    assert life.left(101 * MICROS)[1] is None


def test_a_stream_that_kept_nothing_ends_and_is_renewed_after_its_days() -> None:
    life = Life(fdr_days=7)
    for n in range(18):
        assert life.left(n * MICROS)[1] is None
        life.trial(n * MICROS)
    level, next_us = life.left(18 * MICROS)
    assert level < 1e-4
    assert next_us == 7 * DAY_US
    level, next_us = life.left(7 * DAY_US)
    assert level == pytest.approx(0.010937, rel=1e-3)
    assert next_us is None


def test_a_person_s_own_trial_neither_spends_a_stream_nor_earns_for_it() -> None:
    life = Life()
    for n in range(5):
        assert life.trial(n * MICROS, origin=PERSON, kept=True).alpha == 0.01
    assert life.left(6 * MICROS)[0] == pytest.approx(0.010937, rel=1e-3)


def test_harm_is_seen_as_soon_as_ever_when_little_is_left() -> None:
    poor = plan(alpha=0.001, harm_alpha=0.01)
    assert poor.harm_limit == plan(alpha=0.01).harm_limit == 200


def test_more_than_the_first_level_is_no_least_level() -> None:
    with pytest.raises(ValueError, match="even the first trial of a stream would not begin"):
        TrialSettings(fdr=0.01, least_alpha=0.002)


def test_the_second_trial_of_a_day_waits_and_a_person_s_does_not(tmp_path: Path) -> None:
    lax = GuardrailSettings(cooldown_s=0, dwell_s=0)
    world = World(
        tmp_path, quality=anything, mode="auto", rules=RULE, trials_per_day=1, guardrails=lax
    )
    world.run(200, until=lambda: bool(world.policies("on_trial")))
    first = world.policies("on_trial")[0]
    assert first.origin.kind != "person"
    world.operations.revert(first.id, "not now", by=ADA)
    world.run(150, until=lambda: bool(_denied(world)))
    assert _denied(world), "a trial that a person ended has begun all the same"
    seen = len(_denied(world))
    world.run(20)
    assert len(_denied(world)) == seen, "recorded once"
    mine = world.approved(Setting(value=4))
    world.run(60, until=lambda: world.policy(mine.id).state == "on_trial")
    assert world.policy(mine.id).state == "on_trial"
    world.start_controller()
    world.run(5)
    spent = budget.spent(world.loop._noted or {})
    assert [one.by for one in spent.begun["target"]] == [first.origin.kind, "person"]


def _denied(world: World) -> list[str | None]:
    with world.store.read() as tx:
        return [one.guardrail for one in tx.decisions(limit=100) if one.guardrail == "trial_budget"]

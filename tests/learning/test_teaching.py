"""What trials teach, what they may not, and that none of it is lost with the process."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from controller.learner.linear_thompson import LinearThompson
from controller.learner.registry import loaded
from controller.learner.settings import LearnerSettings
from controller.learning.notes import Notes
from controller.learning.teaching import utilities
from controller.trials import Unit
from policies.settings import Setting
from tests.judge.builders import plan
from tests.learning.lessons import decisions, kept_notes, learning, restart
from tests.loop.world import World


def judged(world: World) -> int:
    with world.store.read() as tx:
        trials = tx.trials(target="chat")
    return sum(unit.judged for trial in trials for unit in trial.units)


def evidence(notes: Notes, now_us: int) -> float:
    learner = loaded(base64.b64decode(notes.learners["active_cap"]))
    assert isinstance(learner, LinearThompson)
    return learner.evidence(at_us=now_us)


def test_each_unit_teaches_both_arms_and_a_new_process_goes_on_from_there(tmp_path: Path) -> None:
    world = learning(tmp_path, mode="auto")
    world.run(300, until=lambda: judged(world) >= 1)
    first = kept_notes(world)
    assert evidence(first, world.clock_us()) == pytest.approx(2.0, abs=0.01)
    assert set(first.judged) == {"active_cap=8", decisions(world)[-1].chosen}
    assert first.entries and first.expected is not None
    restart(world)
    world.run(120, until=lambda: judged(world) >= 2)
    assert evidence(kept_notes(world), world.clock_us()) == pytest.approx(4.0, abs=0.01)


def test_what_another_version_wrote_is_begun_anew_and_another_make_too() -> None:
    settings = LearnerSettings()
    known = LinearThompson.of(settings)
    notes = Notes().with_learner("active_cap", known)
    assert notes.learner(settings, "active_cap", position=0.0) == known
    other = LearnerSettings(half_life_s=60.0)
    assert notes.learner(other, "active_cap", position=0.0) == LinearThompson.of(other)
    broken = Notes(learners={"active_cap": base64.b64encode(b"of the future").decode()})
    assert broken.learner(settings, "active_cap", position=0.0) == known


def test_what_a_person_approved_teaches_nothing_and_the_audit_says_why(tmp_path: Path) -> None:
    world = learning(tmp_path, mode="approve", decide_every_s=3600.0)
    world.run(5)
    policy = world.approved(Setting(value=4))
    world.run(120, until=lambda: judged(world) >= 2)
    assert kept_notes(world).learners == {}
    assert kept_notes(world).entries, "the safety budget is about the target, not about him"
    with world.store.read() as tx:
        (told,) = [one for one in tx.audit() if one.action == "learner.not_taught"]
    assert told.subject == policy.id
    assert told.details["why"] == "key_bob approved it"


def test_a_part_that_an_arm_lacks_counts_as_all_it_could_be_in_both() -> None:
    rate, live = "U:tokens_per_s:batch", "U:attainment:live"
    unit = Unit(
        index=0,
        blocks=(),
        values={"baseline": {rate: 0.2, live: 0.2}, "candidate": {live: 0.1, "U": 0.9}},
    )
    whole = 1.0 - 0.5 / len(plan().intents)
    found = utilities(plan(), unit)
    assert found is not None
    assert found["baseline"] == pytest.approx(whole + 0.2)
    assert found["candidate"] == pytest.approx(whole + 0.1)


def test_a_unit_that_shows_no_part_of_u_in_both_arms_teaches_nothing() -> None:
    unit = Unit(index=0, blocks=(), values={"baseline": {"U:attainment:live": 0.2}})
    assert utilities(plan(), unit) is None

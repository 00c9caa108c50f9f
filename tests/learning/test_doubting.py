"""What is kept once the engine has changed: in doubt, reviewed, and taken back when need be."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from controller.drift.following import Alarm, DriftState, Reference
from controller.drift.noting import drift_note
from controller.drift.watch import Watch
from controller.learner.credit import Entry
from controller.learner.linear_thompson import LinearThompson
from controller.learner.port import Context
from controller.learner.registry import loaded
from controller.learner.settings import LearnerSettings
from controller.learning.crediting import ahead, in_doubt
from controller.learning.menus import Place
from controller.learning.notes import NOTE, Gained, Notes
from controller.state import LOOP
from controller.trials import Trial
from engine.knobs import embedded_knobs
from policies.lifecycle import State
from policies.policy import Origin, Policy
from policies.settings import Setting
from signals.events import MICROS
from tests.learning.lessons import decisions, kept_notes, learning, restart
from tests.loop.cases import kept
from tests.loop.world import World

WORDS = "tpot:live is not what its load explains"
LEARNER = Origin(kind="learner", name="linear_thompson")
STOOD_S = 250


def doubted(folder: Path, *, stood_s: float = STOOD_S, **more: Any) -> World:
    """A world whose controller starts while a drift alarm has stood for so long."""
    world = learning(folder, **{"mode": "auto", **more})
    now_us = world.clock_us()
    alarm = Alarm(
        since_us=now_us - round(stood_s * MICROS),
        last_us=now_us,
        words=WORDS,
        digest="d",
        figures={"tpot:live": 3.5},
    )
    with world.store.write() as tx:
        usual = {"d": Reference(used_us=now_us, watches={"tpot:live": Watch(figure="tpot:live")})}
        state = DriftState(to_us=now_us, references=usual, alarm=alarm)
        tx.set_note(drift_note("chat"), msgspec.json.encode(state).decode())
    return world


def by_the_loop(world: World, cap: int) -> Policy:
    """A setting that the learner proposed and the loop kept, long ago."""
    now_us = world.clock_us()
    born = Policy(
        id="pol_0",
        target="chat",
        knob="active_cap",
        before=Setting(value=8),
        setting=Setting(value=cap),
        origin=LEARNER,
        reason="a test",
        mode="auto",
        proposed_by="learner:linear_thompson",
        created_us=now_us,
        updated_us=now_us,
    )
    after: tuple[State, ...] = ("approved", "applying", "on_trial", "kept")
    with world.store.write() as tx:
        policy = tx.add_policy(born)
        for state in after:
            policy = tx.move(policy, state, actor=LOOP, at_us=now_us, decided_by=LOOP)
    return policy


def noted(world: World, notes: Notes) -> None:
    """A controller that starts with these notes."""
    text = msgspec.json.encode({NOTE: msgspec.json.encode(notes).decode()}).decode()
    with world.store.write() as tx:
        tx.set_note("noted:chat", text)
    restart(world)


def taught(arms: int) -> LinearThompson:
    learner = LinearThompson.of(LearnerSettings())
    action = place(4).action(Setting(value=4))
    for _ in range(arms):
        learner = learner.learn_one(Context(), action, 0.5, at_us=0, decided_us=0)
    return learner


def place(cap: int) -> Place:
    spec = embedded_knobs(
        capacity_active=64, capacity_budget=256, boot_active_cap=None, boot_step_token_budget=None
    )[0]
    return Place(
        knob="active_cap",
        spec=spec,
        ladder=(2, 4, 8, 16),
        baseline=Setting(value=8),
        current=Setting(value=cap),
    )


def followed(world: World) -> DriftState:
    assert world.loop._drift is not None
    return world.loop._drift


def running(world: World) -> Trial | None:
    with world.store.read() as tx:
        return next(iter(tx.trials(target="chat", running=True)), None)


def test_a_lasting_alarm_lets_most_of_what_was_learned_go_and_is_heeded_once(
    tmp_path: Path,
) -> None:
    world = doubted(tmp_path, decide_every_s=3600.0)
    noted(world, Notes().with_learner("active_cap", taught(10)))
    world.run(1)
    notes = kept_notes(world)
    assert notes.doubt_us == world.clock_us() - round((STOOD_S + 1) * MICROS)
    learner = loaded(base64.b64decode(notes.learners["active_cap"]))
    assert learner.evidence(at_us=0) == pytest.approx(1.0)
    restart(world)
    world.run(1)
    assert world.actions().count("learner.doubts") == 1
    assert kept_notes(world).doubt_us == notes.doubt_us


def test_what_latencies_were_usual_is_forgotten_and_the_alarm_stands_for_now(
    tmp_path: Path,
) -> None:
    world = doubted(tmp_path, decide_every_s=3600.0)
    restart(world)
    world.run(1)
    assert followed(world).references == {}
    assert followed(world).alarm is not None and "drift.over" not in world.actions()


def test_an_alarm_that_has_not_lasted_puts_nothing_in_doubt(tmp_path: Path) -> None:
    world = doubted(tmp_path, stood_s=60.0)
    restart(world)
    world.run(1)
    assert kept_notes(world).doubt_us == 0 and "d" in followed(world).references
    assert "learner.doubts" not in world.actions()


def test_another_fingerprint_does_the_same(tmp_path: Path) -> None:
    world = learning(tmp_path, mode="auto", decide_every_s=3600.0)
    noted(world, Notes(fingerprint="model/old/bf16"))
    world.run(5)
    notes = kept_notes(world)
    assert notes.doubt_us > 0 and notes.fingerprint != "model/old/bf16"
    with world.store.read() as tx:
        (told,) = [one for one in tx.audit() if one.action == "learner.doubts"]
    assert "the engine was model/old/bf16" in told.details["why"]


def test_a_review_does_not_wait_for_the_alarm_that_is_its_reason(tmp_path: Path) -> None:
    world = doubted(tmp_path)
    by_the_loop(world, 4)
    restart(world)
    world.run(60, until=lambda: running(world) is not None)
    trial = running(world)
    assert trial is not None
    policy = world.policy(trial.plan.policy_id)
    assert policy.review and policy.origin == LEARNER and policy.before == Setting(value=4)
    with world.store.read() as tx:
        body = tx.note(drift_note("chat"))
    assert body is not None and WORDS in body


def test_what_is_the_baseline_needs_no_review_and_trials_wait_as_ever(tmp_path: Path) -> None:
    world = doubted(tmp_path)
    restart(world)
    world.run(40)
    assert not decisions(world) and running(world) is None


def test_where_no_credit_is_left_to_stay_the_baseline_is_back_at_once(tmp_path: Path) -> None:
    world = doubted(tmp_path, credit=1.0)
    policy = by_the_loop(world, 4)
    restart(world)
    world.run(30, until=lambda: world.cap() == 8)
    world.run(2)
    assert world.cap() == 8
    back = world.policy(policy.id)
    assert back.state == "reverted" and back.verdict is None
    assert back.cause is not None and "does not cover staying" in back.cause
    with world.store.read() as tx:
        assert not tx.trials(target="chat"), "it took no trial"


def test_what_a_person_approved_is_not_taken_back(tmp_path: Path) -> None:
    world = doubted(tmp_path, credit=1.0)
    world.run(1)
    policy = kept(world, world.approved(Setting(value=4)))
    restart(world)
    world.run(30)
    assert world.policy(policy.id).state == "kept" and world.cap() == 4


@pytest.mark.parametrize("mode", ["observe", "approve"])
def test_outside_of_mode_auto_nothing_is_taken_back(tmp_path: Path, mode: str) -> None:
    world = doubted(tmp_path, credit=1.0, mode=mode)
    policy = by_the_loop(world, 4)
    restart(world)
    world.run(25)
    assert world.policy(policy.id).state == "kept"


def test_a_trial_of_the_baseline_that_shows_it_worse_ends_the_doubt(tmp_path: Path) -> None:
    world = doubted(tmp_path, decide_every_s=3600.0)
    by_the_loop(world, 16)
    restart(world)
    world.run(2)
    assert in_doubt(kept_notes(world), place(16))
    back = world.approved(Setting(value=8))
    with world.store.write() as tx:
        tx.set_note(drift_note("chat"), msgspec.json.encode(DriftState()).decode())
    restart(world)
    world.run(600, until=lambda: world.policy(back.id).verdict is not None)
    assert world.policy(back.id).verdict == "HARMED", world.policy(back.id).cause
    notes = kept_notes(world)
    assert not in_doubt(notes, place(16))
    assert ahead(notes, place(16)) > 0


def test_what_is_in_doubt_counts_for_no_more_than_the_baseline() -> None:
    gains = {"active_cap=4": Gained(low=0.1, high=0.2, at_us=100)}
    notes = Notes(gains=gains, doubt_us=50)
    assert ahead(notes, place(4)) == 0.1
    notes = structs.replace(notes, doubt_us=101, behind={"active_cap": 0.3})
    assert ahead(notes, place(4)) == -0.3
    assert ahead(notes, place(8)) == 0.0


def test_a_budget_that_is_spent_always_leaves_the_way_back(tmp_path: Path) -> None:
    world = learning(tmp_path, mode="observe")
    policy = by_the_loop(world, 2)
    now_us = world.clock_us()
    broke = Entry(end_us=now_us, surplus=-1e6)
    noted(world, Notes(entries=(broke,), gains={"active_cap=2": Gained(low=0.1, at_us=now_us)}))
    world.run(90, until=lambda: bool(decisions(world)))
    found = decisions(world)[-1]
    masked = {words for words, why in found.masked.items() if "budget is spent" in why}
    assert masked and not masked & {"active_cap=2", "active_cap=4", "active_cap=8"}
    assert world.policy(policy.id).state == "kept"

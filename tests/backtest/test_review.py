"""A kept law on an engine that has become slower: the loop reviews it, and tries what is better."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import structs

from benchmarks.control.processes import C
from benchmarks.control.scenario import REPLICA, declared, micros
from controller.backtest.backtest import Backtest
from controller.drift.following import Alarm, DriftState
from controller.drift.noting import drift_note
from controller.learner.credit import Entry
from controller.learning.notes import NOTE, Gained, Notes
from controller.plant.laws import law_of
from controller.state import LOOP
from controller.store.address import address_of
from controller.store.sql import open_store
from engine.simulated.faults import Slowdown
from policies.lifecycle import State
from policies.policy import Origin, Policy
from policies.settings import Setting
from tests.learning.test_doubting import WORDS

SLOWER = structs.replace(C, faults=(Slowdown(replica=REPLICA, at_us=1, factor=1.25),))
AFTER: tuple[State, ...] = ("approved", "applying", "on_trial", "kept")
LIFE_S = 700.0


def regressed(folder: Path) -> Backtest:
    """A controller that goes on beside an engine a quarter slower than the one it knew.

    It kept a law with 16 places, which was best then; and an alarm of drift has lasted.
    """
    said = declared(SLOWER.target)
    kept = Setting(law=law_of(16, 64, said.trial), shrink="preempt")
    fleet = SLOWER.fleet(1)
    fleet.run(micros(300))
    now_us = fleet.now_us
    notes = Notes(
        entries=(Entry(end_us=now_us, surplus=1000.0),),
        gains={f"active_cap={kept.words()}": Gained(low=0.1, high=0.2)},
    )
    alarm = Alarm(since_us=1, last_us=now_us, words=WORDS, digest="d", figures={})
    policy = Policy(
        id="pol_0",
        target="chat",
        knob="active_cap",
        before=Setting(value=64),
        setting=kept,
        origin=Origin(kind="plant", name="step_curve"),
        reason="a test",
        mode="auto",
        proposed_by="plant:step_curve",
        created_us=0,
        updated_us=0,
    )
    store = open_store(address_of(folder / "store.db"))
    with store.write() as tx:
        state = DriftState(to_us=now_us, alarm=alarm)
        tx.set_note(drift_note("chat"), msgspec.json.encode(state).decode())
        noted = {NOTE: msgspec.json.encode(notes).decode()}
        tx.set_note("noted:chat", msgspec.json.encode(noted).decode())
        tx.add_policy(policy)
        for state_after in AFTER:
            policy = tx.move(policy, state_after, actor=LOOP, at_us=0, decided_by=LOOP)
    store.close()
    return Backtest(said, fleet, folder, seed=1, tick_s=2.0)


def test_what_was_kept_on_a_faster_engine_is_reviewed_within_minutes(tmp_path: Path) -> None:
    backtest = regressed(tmp_path)
    try:
        backtest.run(LIFE_S, until=lambda: bool(backtest.trials()))
        (trial,) = backtest.trials()
        (policy,) = backtest.policies("applying", "on_trial")
    finally:
        backtest.close()
    assert policy.review and policy.origin.kind == "learner" and policy.trial == trial.plan.id
    assert trial.plan.baseline.law is not None and trial.plan.baseline.law.steps[0].value == 16
    law = trial.plan.candidate.law
    assert law is None or law.steps[0].value < 16, policy.words()
    assert policy.expected is not None and policy.expected.estimate > 0

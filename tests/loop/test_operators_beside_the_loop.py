"""Operators act while the loop decides: nobody overtakes them, nothing stays stuck."""

from __future__ import annotations

import itertools
import threading
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from controller.latch import Latch, Latched
from controller.store.port import Tx
from policies.policy import Mode
from policies.settings import Setting
from signals.errors import Broken, Conflict, Unavailable
from tests.loop.cases import anything
from tests.loop.world import ADA, World


def test_a_policy_kept_in_the_middle_of_its_own_block_loses_its_expiry(tmp_path: Path) -> None:
    arms = set()
    for seed in (4, 0, 1, 2, 3, 5, 6, 7):
        folder = tmp_path / str(seed)
        folder.mkdir()
        world = World(folder, quality=anything, seed=seed)
        world.run(10)
        policy = world.approved(Setting(value=16))
        world.run(900, until=lambda w=world: w.trial().state == "done")  # type: ignore[misc]
        arms.add(world.trial().units[-1].blocks[-1].arm)
        assert world.policy(policy.id).state == "kept"
        world.run(60, loop=False)
        assert world.cap() == 16, f"seed {seed}: a dead controller changes nothing"
        if len(arms) == 2:
            return
    raise AssertionError(f"the verdict never came in both arms: {arms}")


def test_an_engine_that_restarts_while_killed_gets_what_was_stable_again(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, quality=anything)
    world.run(5)
    world.operations.kill("chat", "stop", by=ADA)
    world.engine.die()
    world.run(2)
    assert world.cap() == 8


def test_a_kill_after_a_hold_is_followed_and_release_starts_nothing_that_was_killed(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, quality=anything)
    world.run(10)
    policy = world.approved(Setting(value=16))
    world.run(5)
    world.operations.hold("chat", "look", by=ADA)
    world.run(1)
    killed = Latched(
        state="killed", actor="key_direct", reason="by hand", since_us=world.clock_us()
    )
    Latch(tmp_path / "latch.json").set("chat", killed)
    world.run(2)
    assert world.policy(policy.id).state == "reverted"
    with world.store.read() as tx:
        last = [entry for entry in tx.audit() if entry.action == "control.killed"]
    assert [(entry.actor, entry.details["reason"]) for entry in last] == [("key_direct", "by hand")]
    world.operations.release("chat", "done", by=ADA)
    world.run(5)
    assert world.policy(policy.id).state == "reverted"
    assert world.trial().state == "done"


def test_a_kill_with_an_unreadable_store_takes_the_candidate_off_the_engine(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(10)
    world.approved(Setting(value=16))
    world.run(60, until=lambda: world.cap() == 16)
    world.operations._store = _NoStore()
    report = world.operations.kill("chat", "stop", by=ADA)
    assert [r.ok for r in report.replicas] == [True]
    assert not report.recorded
    assert world.cap() == 8


class _NoStore:
    """A store that does not answer."""

    writes = 0

    def read(self) -> AbstractContextManager[Tx]:
        raise Unavailable("gone")

    write = read

    def close(self) -> None:
        """Nothing to close."""


def test_a_pause_by_a_person_stays_whatever_words_he_uses(tmp_path: Path) -> None:
    for reason in ("emergency maintenance", "held"):
        folder = tmp_path / reason
        folder.mkdir()
        world = World(folder, quality=anything)
        world.run(10)
        policy = world.approved(Setting(value=16))
        world.run(5)
        world.operations.pause(policy.id, reason, by=ADA)
        world.run(5)
        world.operations.hold("chat", "look", by=ADA)
        world.operations.release("chat", "done", by=ADA)
        world.run(5)
        assert world.policy(policy.id).state == "paused"
        world.operations.resume(policy.id, by=ADA)
        world.run(2)
        assert world.policy(policy.id).state == "on_trial"


def test_an_operator_s_kill_is_not_overtaken_by_a_step_that_did_not_know_of_it(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, quality=anything)
    world.run(10)
    policy = world.approved(Setting(value=16))
    look = world.loop._looker.look

    def kill_meanwhile(*args: object, **named: object) -> object:
        world.loop._looker.look = look  # type: ignore[method-assign]
        seen = look(*args, **named)  # type: ignore[arg-type]
        world.operations.kill("chat", "now", by=ADA)
        return seen

    world.loop._looker.look = kill_meanwhile  # type: ignore[method-assign, assignment]
    with pytest.raises(Conflict, match="moved on"):
        world.loop.tick()
    world.run(3)
    assert world.policy(policy.id).state == "approved"
    assert world.cap() == 8


def test_a_reverted_layer_below_ends_the_trial_above_it(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(10)
    below = world.approved(Setting(value=16))
    world.run(900, until=lambda: world.policy(below.id).state == "kept")
    above = world.approved(Setting(value=32))
    world.run(3)
    assert world.policy(above.id).state == "on_trial"
    world.operations.revert(below.id, "changed our mind", by=ADA)
    world.run(3)
    ended = world.policy(above.id)
    assert (ended.state, ended.verdict) == ("reverted", "INCONCLUSIVE")
    assert world.policy(below.id).state == "reverted"
    assert world.cap() == 8


def test_without_the_feature_store_an_operator_s_revert_still_reaches_the_engine(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, quality=anything)
    world.run(10)
    policy = world.approved(Setting(value=16))
    world.run(60, until=lambda: world.cap() == 16)
    world.rows.gone = True
    world.operations.revert(policy.id, "now", by=ADA)
    world.run(2)
    assert world.policy(policy.id).state == "reverted"
    assert world.cap() == 8
    world.engine.die()
    world.run(2)
    assert world.cap() == 8


def test_an_approved_policy_outlives_a_long_trial_before_it(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything, proposal_ttl_s=30, max_units=40)
    world.faster_with_cap = False
    world.run(10)
    world.approved(Setting(value=16))
    world.run(1)
    waiting = world.approved(Setting(value=4))
    world.run(60)
    assert world.policy(waiting.id).state == "approved"


def test_too_many_proposals_are_refused_with_the_bound(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(1)
    for n in range(world.declared.guardrails.max_pending):
        world.operations.propose("chat", "active_cap", Setting(value=9 + n), "again", by=ADA)
        world.run(0.1)
    with pytest.raises(Conflict, match="already wait") as refused:
        world.operations.propose("chat", "active_cap", Setting(value=4), "again", by=ADA)
    assert (refused.value.field, refused.value.value) == ("guardrail", "pending")
    assert refused.value.allowed == {"pending": 16.0, "allowed": 16.0}


def test_a_denial_is_recorded_once_however_often_it_comes(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything, mode="approve")
    world.run(90, until=lambda: bool(world.policies("pending")))
    world.operations.reject(world.policies("pending")[0].id, "no", by=ADA)
    world.run(60)
    with world.store.read() as tx:
        denied = [d for d in tx.decisions(limit=1000) if d.denied]
    assert 1 <= len(denied) <= 3


def test_latches_of_two_targets_set_at_once_both_stand(tmp_path: Path) -> None:
    latch = Latch(tmp_path / "latch.json")
    threads = [threading.Thread(target=latch.set, args=(f"t{n}", _killed(n))) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(latch.read()) == sorted(f"t{n}" for n in range(12))


def test_a_damaged_latch_does_not_stand_between_an_operator_and_his_kill(tmp_path: Path) -> None:
    path = tmp_path / "latch.json"
    path.write_text("{half")
    latch = Latch(path)
    with pytest.raises(Broken, match="damaged"):
        latch.read()
    latch.set("chat", _killed(1))
    assert latch.read() == {"chat": _killed(1)}
    assert (tmp_path / "latch.damaged").read_text() == "{half"


def _killed(n: int) -> Latched:
    return Latched(state="killed", actor="ada", reason="stop", since_us=n)


def test_operators_who_never_rest_can_t_starve_the_loop(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(10)
    look, calls = world.loop._looker.look, itertools.count()

    def disturbed(*args: object, **named: object) -> object:
        seen = look(*args, **named)  # type: ignore[arg-type]
        mode: Mode = "observe" if next(calls) % 2 else "approve"
        world.operations.set_mode("chat", "step_token_budget", mode, by=ADA)
        return seen

    world.loop._looker.look = disturbed  # type: ignore[method-assign, assignment]
    policy = world.approved(Setting(value=16))
    world.run(3)
    assert world.races > 2
    assert world.policy(policy.id).state == "on_trial"
    world.operations.revert(policy.id, "done", by=ADA)
    world.run(3)
    assert world.policy(policy.id).state == "reverted"
    with world.store.read() as tx:
        assert [e for e in tx.audit(limit=10_000) if e.action == "policy.reverted"]


def test_what_is_written_about_others_does_not_make_the_loop_decide_again(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(10)
    look, calls = world.loop._looker.look, itertools.count()

    def disturbed(*args: object, **named: object) -> object:
        seen = look(*args, **named)  # type: ignore[arg-type]
        with world.store.write() as tx:
            tx.set_note(f"another {next(calls)}", "x")
        return seen

    world.loop._looker.look = disturbed  # type: ignore[method-assign, assignment]
    policy = world.approved(Setting(value=16))
    world.run(1)
    assert world.policy(policy.id).state == "on_trial"
    assert world.races == 0

"""Each change of the latch is recorded once, by whoever comes first, in the name of who made it."""

from __future__ import annotations

import json
import threading
from pathlib import Path

from controller.control import LATCHED
from controller.detaching import FREE
from controller.following import GONE, follow_latch
from controller.latch import KEPT, Latch, Latched, LatchState
from controller.state import LOOP
from signals.errors import Conflict
from tests.loop.cases import anything
from tests.loop.world import ADA, BOB, World


def recorded(world: World) -> list[tuple[str, str, str]]:
    """State, who and why, of each change that the audit has."""
    with world.store.read() as tx:
        return [
            (entry.action.removeprefix("control."), entry.actor, entry.details["reason"])
            for entry in tx.audit()
            if entry.action.removeprefix("control.") in ("held", "killed", "released", "detached")
        ]


def latched(state: LatchState, actor: str, since_us: int) -> Latched:
    return Latched(state=state, actor=actor, reason=f"{state} by {actor}", since_us=since_us)


def test_a_crash_after_several_latched_acts_leaves_each_recorded_once_in_order(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, quality=anything)
    world.run(1)
    now_us = world.clock_us()
    acts: list[tuple[LatchState, str]] = [("held", "ada"), ("killed", "bob"), ("released", "eve")]
    for n, (state, actor) in enumerate(acts):
        world.fleet.latch.set("chat", latched(state, actor, now_us + n))
    world.start_controller()
    world.run(1)
    assert recorded(world) == [
        ("held", "ada", "held by ada"),
        ("killed", "bob", "killed by bob"),
        ("released", "eve", "released by eve"),
    ]
    with world.store.read() as tx:
        assert not tx.control("chat").hold


def test_a_person_who_comes_late_to_the_store_is_recorded_once_and_turns_nothing_back(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, quality=anything)
    world.run(1)
    latch = world.fleet.latch
    world.operations.hold("chat", "ada holds", by=ADA)
    late = latch.changes("chat")
    world.run(1)
    world.operations.release("chat", "bob releases", by=BOB)
    with world.store.write() as tx:
        follow_latch(tx, "chat", latch.changes("chat"), now_us=world.clock_us())
    with world.store.write() as tx:
        assert latch.changes("chat")[:-1] == late
        follow_latch(tx, "chat", latch.changes("chat"), now_us=world.clock_us())
    world.run(1)
    assert [state for state, _, _ in recorded(world)] == ["held", "released"]


def test_of_several_who_release_at_once_one_does_and_the_others_are_refused(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, quality=anything)
    world.run(1)
    world.operations.hold("chat", "look", by=ADA)
    refusals: list[str] = []

    def release() -> None:
        try:
            world.operations.release("chat", "done", by=BOB)
        except Conflict as refused:
            refusals.append(refused.detail)

    threads = [threading.Thread(target=release) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    world.run(1)
    assert len(refusals) == 5
    assert [state for state, _, _ in recorded(world)] == ["held", "released"]


def test_a_latch_whose_file_is_gone_is_released_in_the_loop_s_name(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(1)
    world.operations.hold("chat", "look", by=ADA)
    (tmp_path / "latch.json").unlink()
    world.run(1)
    assert recorded(world)[1:] == [("released", LOOP, GONE)]
    world.operations.hold("chat", "again", by=BOB)
    world.run(1)
    assert [state for state, _, _ in recorded(world)] == ["held", "released", "held"]


def test_a_latch_file_that_was_put_back_records_only_what_stands_now(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(1)
    world.operations.hold("chat", "look", by=ADA)
    old = (tmp_path / "latch.json").read_bytes()
    world.run(1)
    world.operations.release("chat", "done", by=BOB)
    world.run(1)
    (tmp_path / "latch.json").write_bytes(old)
    world.run(1)
    assert [state for state, _, _ in recorded(world)] == ["held", "released", "held"]


def test_a_change_that_is_made_twice_is_one(tmp_path: Path) -> None:
    latch, change = Latch(tmp_path / "latch.json"), latched("held", "ada", 1)
    assert latch.set("chat", change)
    assert latch.set("chat", latched("killed", "bob", 2))
    assert latch.set("chat", change)
    assert [one.state for one in latch.changes("chat")] == ["held", "killed"]


def test_the_latch_is_changed_only_over_what_was_said(tmp_path: Path) -> None:
    latch = Latch(tmp_path / "latch.json")
    assert not latch.set("chat", latched("released", "ada", 1), over=LATCHED)
    assert latch.read() == {}
    assert latch.set("chat", latched("detached", "ada", 2), over=FREE)
    assert not latch.set("chat", latched("detached", "bob", 3), over=FREE)
    assert latch.read()["chat"].actor == "ada"


def test_the_file_keeps_the_latest_changes_and_no_more(tmp_path: Path) -> None:
    latch = Latch(tmp_path / "latch.json")
    for n in range(KEPT + 3):
        latch.set("chat", latched("held", "ada", n))
    assert [one.since_us for one in latch.changes("chat")] == list(range(3, KEPT + 3))


def test_a_file_of_the_first_version_is_understood(tmp_path: Path) -> None:
    body = {"chat": {"state": "held", "actor": "ada", "reason": "r", "since_us": 1}}
    (tmp_path / "latch.json").write_text(json.dumps(body), encoding="utf-8")
    assert Latch(tmp_path / "latch.json").read()["chat"].actor == "ada"

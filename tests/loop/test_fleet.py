"""Replicas side by side: one that hangs delays nobody, all are reconciled, acts stay bounded."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing
from pathlib import Path

import pytest

from benchmarks.stopping.bare_engine import bare_engines
from benchmarks.stopping.black_hole import black_hole, refusing
from controller.override_acts import OverrideRequest
from controller.store.port import Tx
from policies.runtime_config import Patch, SettingChange
from policies.settings import Setting
from signals.errors import Unavailable
from tests.cli.running import until
from tests.loop.cases import WON
from tests.loop.test_desired import policy as proposed
from tests.loop.wired import DEADLINE_S, KEY, Plant
from tests.loop.world import ADA, BOB


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[Plant]:
    """Three replicas, all well."""
    with ExitStack() as stack:
        engines = stack.enter_context(bare_engines("chat", 3, KEY))
        made = Plant(tmp_path, [url for _, url in engines], [one for one, _ in engines])
        yield stack.enter_context(closing(made))


@pytest.fixture
def torn(tmp_path: Path) -> Iterator[tuple[Plant, list[str]]]:
    """Eight replicas of which the first and the last hang and one refuses."""
    with ExitStack() as stack:
        engines = stack.enter_context(bare_engines("chat", 5, KEY))
        gone = [stack.enter_context(black_hole()), refusing(), stack.enter_context(black_hole())]
        urls = [gone[0], *[url for _, url in engines], *gone[1:]]
        made = Plant(tmp_path, urls, [one for one, _ in engines])
        yield stack.enter_context(closing(made)), gone


def test_the_loop_brings_every_replica_to_the_wish_and_back(plant: Plant) -> None:
    plant.must_all_have(8)
    _put(plant, 1, 32, change_id="ctl.as.of.another.thread")
    plant.must_all_have(8)


def test_a_stranger_s_change_of_any_replica_is_left_alone_and_listed(plant: Plant) -> None:
    plant.must_all_have(8)
    _put(plant, 2, 32, change_id="by-hand")
    until(lambda: plant.tick() and _adopted(plant) == ["r2"], "it is a pin")
    for _ in range(5):
        plant.tick()
    assert plant.caps() == [8, 8, 32]


def _adopted(plant: Plant) -> list[str | None]:
    with plant.store.read() as tx:
        return [one.adopted for one in tx.overrides(target="chat", state="active")]


def _put(plant: Plant, index: int, cap: int, *, change_id: str) -> None:
    actuator = plant.actuators[index]
    seen = actuator.read()
    change = SettingChange(knob="active_cap", value=cap)
    actuator.patch(
        Patch(
            change_id=f"{change_id}.{time.monotonic_ns()}",
            epoch=seen.epoch,
            expected=seen.expected,
            settings=(change,),
        )
    )


def test_a_first_replica_that_hangs_does_not_keep_the_others_waiting(
    torn: tuple[Plant, list[str]],
) -> None:
    plant, _ = torn
    plant.must_all_have(8)
    began_s = time.monotonic()
    for _ in range(4):
        plant.tick()
    assert time.monotonic() - began_s < 3.0, "each look is bounded"


def test_a_reverted_policy_is_over_when_every_replica_that_answers_is_seen_without_it(
    torn: tuple[Plant, list[str]],
) -> None:
    made, _ = torn
    with made.store.write() as tx:
        policy = tx.add_policy(proposed("p1", "proposed", 16))
        for after in WON:
            policy = tx.move(policy, after, actor="test", at_us=0)
    made.must_all_have(16, within_s=10.0)
    made.operations.revert(policy.id, "a test", by=ADA)
    until(lambda: made.tick() and _state(made, policy.id) == "reverted", "it is over")
    assert made.caps() == [8] * 5


def _state(plant: Plant, policy_id: str) -> str:
    with plant.store.read() as tx:
        return tx.policy(policy_id).state


def test_an_act_lists_exactly_the_replicas_that_are_gone_and_in_time(
    torn: tuple[Plant, list[str]],
) -> None:
    plant, gone = torn
    for act in (plant.operations.hold, plant.operations.kill):
        began_s = time.monotonic()
        report = act("chat", "a test", by=ADA)
        assert time.monotonic() - began_s < DEADLINE_S + 1.0
        assert sorted(one.url for one in report.replicas if not one.ok) == sorted(gone)
        assert all("unreachable" in one.detail for one in report.replicas if not one.ok)
        with plant.store.read() as tx:
            (last,) = [e for e in tx.audit() if e.action == "control.reached"][-1:]
        assert sum("unreachable" in said for said in last.details["replicas"].values()) == 3
    assert plant.caps() == [8] * 5


class Hanging:
    """A store that takes a call and never answers, until it is let go."""

    writes = 0

    def __init__(self) -> None:
        self.let_go = threading.Event()

    def read(self) -> AbstractContextManager[Tx]:
        self.let_go.wait(30)
        raise Unavailable("gone")

    write = read

    def close(self) -> None:
        """Nothing to close."""


def test_a_store_that_hangs_delays_no_kill_which_goes_by_what_was_read_last(plant: Plant) -> None:
    plant.operations.override(pin(4), by=ADA)
    plant.must_all_have(4)
    real, hanging = plant.operations._store, Hanging()
    plant.operations._store = hanging
    try:
        began_s = time.monotonic()
        report = plant.operations.kill("chat", "a test", by=ADA)
        took_s = time.monotonic() - began_s
        again = plant.operations.hold("chat", "a test", by=ADA)
    finally:
        hanging.let_go.set()
        plant.operations._store = real
    assert plant.caps() == [8] * 3
    assert [one.ok for one in report.replicas] == [True] * 3
    assert not report.recorded and not again.recorded
    bounds = plant.declared.control
    assert took_s < (bounds.store_ms + bounds.record_ms) / 1000 + 0.5
    until(lambda: plant.tick() and len(_acts(plant)) >= 2, "they are recorded")
    assert [verb for verb in _acts(plant) if verb in ("killed", "held")] == ["killed", "held"]
    assert list((plant.fleet.latch.folder / "acts").glob("*.json")) == []


def pin(cap: int) -> OverrideRequest:
    """A pin of the cap for ten minutes."""
    return OverrideRequest(
        target="chat",
        kind="pin",
        knob="active_cap",
        setting=Setting(value=cap),
        reason="a test",
        expires_in_s=600.0,
    )


def test_a_crossover_reaches_each_half_and_its_kill_reaches_all(tmp_path: Path) -> None:
    """Over real HTTP: an arm each, one that takes no part, and one kill for all of them."""
    with ExitStack() as stack:
        engines = stack.enter_context(bare_engines("chat", 3, KEY))
        urls, live = [url for _, url in engines], [one for one, _ in engines]
        plant = stack.enter_context(closing(Plant(tmp_path, urls, live, routing="random")))
        plant.must_all_have(8)
        asked = plant.operations.propose("chat", "active_cap", Setting(value=16), "a test", by=ADA)
        plant.operations.approve(asked.id, asked.shown_digest, by=BOB)
        until(lambda: plant.tick() and _state(plant, asked.id) == "on_trial", "it began")
        stamps = [actuator.read().trial for actuator in plant.actuators]
        arms = [None if stamp is None else stamp.arm for stamp in stamps]
        assert set(arms) == {"baseline", "candidate", None}
        assert plant.caps() == [16 if arm == "candidate" else 8 for arm in arms]
        plant.operations.kill("chat", "a test", by=ADA)
        assert plant.caps() == [8, 8, 8]
        assert [actuator.read().trial for actuator in plant.actuators] == [None] * 3


def _acts(plant: Plant) -> list[str]:
    with plant.store.read() as tx:
        return [e.details["verb"] for e in tx.audit() if e.action == "control.reached"]

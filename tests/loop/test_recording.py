"""The real loop and store record what real settings books had, also while nobody looked."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest

from controller.audit.verify import verify
from controller.desired import Desired
from controller.fleet import Replica
from controller.past import RESTARTED, record
from controller.store.address import address_of
from engine.settings_book import SettingsBook
from engine.settings_in_force import EngineIdentity
from policies.in_force import Segment
from policies.settings import Effective, Setting
from signals.events import MICROS
from tests.engine_settings.plant import chat_law
from tests.loop.cases import anything
from tests.loop.plant import Book
from tests.loop.world import World

WAIT_S = 10.0


class Second(Book):
    """Another replica of the same target."""

    def die(self) -> None:
        super().die()
        identity = EngineIdentity(target="chat", replica="r1", incarnation=f"other{self.lives}")
        self.book = SettingsBook(
            identity,
            tuple(self.book.specs.values()),
            self.meter,
            ("interactive", "batch"),
            remembered=64,
            now=self._clock(),
        )


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, quality=anything)


def segments(world: World, replica: str = "r0") -> list[Segment]:
    with world.store.read() as tx:
        return tx.segments("chat", replica=replica)


def caps(world: World) -> list[int | None]:
    """In order; None: unknown."""
    found = (one.settings["active_cap"].value if one.known else None for one in segments(world))
    return list(found)


def on_trial(world: World) -> None:
    world.approved(Setting(value=16))
    world.run(60, until=lambda: world.cap() == 16)
    assert world.cap() == 16


def test_each_change_of_settings_is_a_segment_with_its_entry(world: World) -> None:
    world.run(1)
    on_trial(world)
    world.run(1)
    found = segments(world)
    assert caps(world)[0] == 64
    assert caps(world)[-1] == 16
    assert [one.until_us for one in found] == [*(one.from_us for one in found[1:]), None]
    with world.store.read() as tx:
        for one in found:
            assert one.entry is not None
            (entry,) = tx.audit(after=one.entry - 1, limit=1)
            assert entry.action == "settings.observed"
            stored = msgspec.convert(entry.details["segment"], type=Segment, strict=False)
            assert stored == msgspec.structs.replace(one, until_us=None, entry=None)
    assert verify(address_of(world.folder / "store.db")).clean


def test_a_law_that_moves_just_before_a_patch_leaves_no_hole(world: World) -> None:
    engine = world.engine
    replica = Replica("book:", engine, ours="t.", epoch=1, mono=lambda: world.now_s)
    law = Effective(setting=Setting(law=chat_law(default=16, present=4)))
    bring(replica, world, Desired(settings={"active_cap": law}))
    shown = replica.read()
    assert shown is not None
    past, _ = record(None, shown)
    engine.meter.note("interactive", tokens=40, now_s=world.now_s)
    engine.book.pass_time(world.engine_instant())
    other = Effective(setting=Setting(value=128))
    bring(replica, world, Desired(settings={"active_cap": law, "step_token_budget": other}))
    assert replica.seen is not None
    past, waits = record(past, replica.seen)
    assert waits == []
    world.now_s += 1
    shown = replica.read()
    assert shown is not None
    assert [line.cause for line in shown.changes[-2:]] == ["law", "patch"]
    past, (now,) = record(past, shown)
    assert now.known
    assert (now.settings["active_cap"].value, now.settings["step_token_budget"].value) == (4, 128)


def bring(replica: Replica, world: World, wish: Desired) -> None:
    """As the loop does: the wish was made from what was seen last, and is sent at once."""
    replica.read()
    reached = replica.bring(wish, now_us=world.clock_us(), unless=lambda: False, after=replica.seen)
    assert reached.ok


def test_what_expired_while_serve_was_away_is_recorded_at_its_own_time(world: World) -> None:
    world.run(1)
    on_trial(world)
    world.run(1)
    began_us = segments(world)[-1].from_us
    world.store.close()
    world.run(120, loop=False)
    assert world.cap() == 8
    away_us = world.clock_us()
    world.start_controller()
    world.run(1)
    assert None not in caps(world)
    expired = next(one for one in segments(world) if one.cause == "expiry")
    assert expired.settings["active_cap"].value == 8
    assert expired.settings["active_cap"].policy_id is None
    assert began_us < expired.from_us < away_us - 60 * MICROS


def test_an_engine_restarted_while_serve_was_away_leaves_a_hole(world: World) -> None:
    world.run(3)
    world.store.close()
    world.run(30, loop=False)
    world.engine.die()
    booted_us = world.clock_us()
    world.run(5, loop=False)
    world.start_controller()
    world.run(2)
    (hole,) = [one for one in segments(world) if not one.known]
    assert (hole.cause, hole.until_us) == (RESTARTED, booted_us)
    assert hole.from_us < booted_us - 25 * MICROS


def test_an_idle_loop_notes_its_read_backs_once_a_minute_and_no_entry(world: World) -> None:
    world.traffic = False
    world.run(2)
    writes, entries = world.store.writes, len(world.actions())
    world.run(50)
    assert world.store.writes == writes
    world.run(20)
    assert world.store.writes == writes + 1
    assert len(world.actions()) == entries


def test_every_replica_is_recorded(world: World) -> None:
    second = Second(world.engine_instant)
    replica = Replica("second:", second, ours="ctl.", epoch=1, mono=lambda: world.now_s)
    world.fleet.of("chat").append(replica)
    began_s = time.monotonic()
    while not segments(world, "r1") and time.monotonic() - began_s < WAIT_S:
        world.run(0.1)
    first = segments(world, "r1")[0]
    assert (first.incarnation, first.settings["active_cap"].value) == ("other1", 64)
    with world.store.read() as tx:
        assert tx.segment_replicas("chat") == ["r0", "r1"]

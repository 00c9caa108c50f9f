"""The first look at an engine after an upgrade: what the version before had noted still counts."""

from __future__ import annotations

from pathlib import Path

import msgspec

from controller.audit.verify import verify
from controller.store.port import Foreign
from policies.overrides import Override
from policies.runtime_config import Patch, SettingChange
from policies.settings import Setting
from signals.events import MICROS
from tests.loop.cases import anything
from tests.loop.world import World
from tests.store.guarded import raw_access

STRANGE = 32


def left_by_the_version_before(folder: Path, *, kept_s: float | None = None) -> World:
    """Its controller has stopped; it had read the engine's log to the end.

    ``kept_s``: so long it would have kept a stranger's change that it saw; None: it saw none.
    """
    world = World(folder, quality=anything)
    world.run(5)
    if kept_s is not None:
        change_by_a_stranger(world)
    seen = world.engine.read()
    last = {"incarnation": seen.incarnation, "seq": seen.changes[-1].seq}
    with world.store.write() as tx:
        tx.set_note("last_read:chat", msgspec.json.encode(last).decode())
        if kept_s is not None:
            tx.set_foreign(
                Foreign(
                    target="chat",
                    knob="active_cap",
                    setting=Setting(value=STRANGE),
                    seen_us=world.clock_us(),
                    until_us=world.clock_us() + round(kept_s * MICROS),
                    change_id="x",
                )
            )
    world.store.close()
    with raw_access(world.address) as raw:
        raw.run("DELETE FROM notes WHERE key = 'last_reads:chat'")
    return world


def change_by_a_stranger(world: World) -> None:
    seen = world.engine.read()
    change = SettingChange(knob="active_cap", value=STRANGE)
    world.engine.patch(
        Patch(change_id="x", epoch=seen.epoch, expected=seen.expected, settings=(change,))
    )


def active(world: World) -> list[Override]:
    with world.store.read() as tx:
        return tx.overrides(target="chat", state="active")


def test_a_stranger_s_change_that_was_kept_is_left_alone_until_its_end(tmp_path: Path) -> None:
    world = left_by_the_version_before(tmp_path, kept_s=20)
    world.start_controller()
    world.run(2)
    (kept,) = active(world)
    assert (kept.place, kept.adopted, kept.expires_us) == (
        "active_cap",
        "r0",
        kept.created_us + round((20 - 0.1) * MICROS),
    )
    assert world.cap() == STRANGE
    world.run(20)
    assert (active(world), world.cap()) == ([], 8)
    with world.store.read() as tx:
        assert tx.foreign("chat") == []
    assert verify(world.address).clean


def test_it_is_forgotten_with_the_engine_that_had_it(tmp_path: Path) -> None:
    world = left_by_the_version_before(tmp_path, kept_s=600)
    world.engine.die()
    world.start_controller()
    world.run(2)
    assert (active(world), world.cap()) == ([], 8)


def test_one_that_was_over_before_the_upgrade_is_not_kept_again(tmp_path: Path) -> None:
    world = left_by_the_version_before(tmp_path, kept_s=1)
    world.now_s += 60
    world.start_controller()
    world.run(2)
    assert (active(world), world.cap()) == ([], 8)
    assert "override.set" not in world.actions()


def test_a_stranger_s_change_while_nobody_was_there_is_seen(tmp_path: Path) -> None:
    world = left_by_the_version_before(tmp_path)
    change_by_a_stranger(world)
    world.start_controller()
    world.run(2)
    assert [one.adopted for one in active(world)] == ["r0"]
    assert world.cap() == STRANGE


def test_an_engine_that_restarted_while_nobody_was_there_is_noticed(tmp_path: Path) -> None:
    world = left_by_the_version_before(tmp_path)
    world.engine.die()
    world.start_controller()
    world.run(2)
    assert world.actions().count("engine.restarted") == 1


def test_what_was_left_waits_for_an_engine_that_is_away(tmp_path: Path) -> None:
    world = left_by_the_version_before(tmp_path, kept_s=600)
    world.engine.reachable = False
    world.start_controller()
    world.run(2)
    assert active(world) == []
    world.engine.reachable = True
    world.run(2)
    assert [one.adopted for one in active(world)] == ["r0"]
    assert world.cap() == STRANGE

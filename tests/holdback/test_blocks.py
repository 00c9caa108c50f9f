"""The holdback in the loop: its blocks, who comes before it, what it leaves behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from controller.baselines import bring_in_baseline
from controller.config.targets import HoldbackSettings
from controller.drift.following import Alarm, DriftState
from controller.history.touching import met_by_stamp
from controller.holdback.drawing import Holdback, arm_of, holdback_of
from controller.holdback.running import _too_much
from controller.memory_wall import NOTE as WALL
from controller.memory_wall import Walls
from controller.notes import noted
from controller.plant.memory import Wall
from controller.rules.firing import Timers
from controller.state import Draft, LoopState
from controller.store.port import Control
from policies.runtime_config import TrialStamp
from policies.settings import Setting
from signals.events import KvLayout
from tests.loop.cases import anything, kept
from tests.loop.test_overrides import set_over
from tests.loop.world import ADA, World, declared


class Held(World):
    """A world whose target has a holdback, and a cap of 16 that is kept over a baseline of 8."""

    def __init__(self, folder: Path, *, share: float = 0.34, **more: Any) -> None:
        super().__init__(folder, quality=anything, mode="observe", **more)
        self._hold_back(HoldbackSettings(share=share, block_s=10.0))
        self.run(3)
        self.kept = kept(self, self.approved(Setting(value=16)))

    def _hold_back(self, holdback: HoldbackSettings | None) -> None:
        target = self.declared.target.model_copy(update={"holdback": holdback})
        self.declared = msgspec.structs.replace(self.declared, target=target)
        self.start_controller()

    def undeclare(self) -> None:
        """As after an edit of the file and a restart."""
        self._hold_back(None)

    def held(self) -> Holdback | None:
        with self.store.read() as tx:
            return holdback_of(noted(tx, "chat"))

    def stamp(self) -> TrialStamp | None:
        return self.engine.stamp.trial

    def in_arm(self, arm: str) -> bool:
        stamp = self.stamp()
        return stamp is not None and stamp.id.startswith("hbk_") and stamp.arm == arm

    def until(self, arm: str) -> None:
        self.run(60, until=lambda: self.in_arm(arm))
        assert self.in_arm(arm)

    def void(self) -> str | None:
        """Why the last block that ended counts for nothing."""
        found = self.held()
        assert found is not None and found.open is None
        if found.blocks:
            return found.blocks[-1].block.void
        void: str | None = self.strata()[-1]["blocks"][-1]["void"]
        return void

    def strata(self) -> list[dict[str, Any]]:
        with self.store.read() as tx:
            found = [entry for entry in tx.audit() if entry.action == "holdback.stratum"]
        return [entry.details for entry in found]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Held]:
    yield Held(tmp_path)


def test_every_so_many_blocks_one_is_on_the_baseline_and_the_rest_as_kept(world: Held) -> None:
    caps: dict[str, set[int]] = {"baseline": set(), "candidate": set()}
    stamps = set()

    def note() -> bool:
        stamp = world.stamp()
        if stamp is not None and stamp.arm is not None:
            stamps.add((stamp.block, stamp.arm))
            caps[stamp.arm].add(world.cap())
        return False

    world.run(65, until=note)
    found = world.held()
    assert found is not None
    assert caps == {"baseline": {8}, "candidate": {16}}
    assert stamps == {(n, arm_of(found.plan.seed, n, 3)) for n in range(len(stamps))}
    assert len(stamps) >= 5


def test_a_stratum_is_told_whole_with_what_each_block_showed(world: Held) -> None:
    world.run(120, until=lambda: bool(world.strata()))
    stratum = world.strata()[0]
    assert [one["arm"] for one in stratum["blocks"]].count("baseline") == 1
    assert all(one["values"] is not None for one in stratum["blocks"]), stratum["blocks"]
    ds = {name: float(value) for name, value in stratum["d"].items()}
    assert ds["tokens_per_s:batch"] == pytest.approx(496 - 344, abs=40)
    assert ds["attainment:live"] == 0.0
    found = world.held()
    assert found is not None
    assert all(one.block.index >= 3 for one in found.blocks), "told, and let go of"


def test_a_controller_that_dies_in_the_baseline_s_block_leaves_nothing_behind(world: Held) -> None:
    world.until("baseline")
    world.run(2)
    assert world.cap() == 8
    world.run(60, loop=False)
    assert world.cap() == 16, "the engine itself went back to what is kept"
    assert world.stamp() is None
    world.start_controller()
    world.run(120, until=lambda: bool(world.strata()))
    blocks = world.strata()[0]["blocks"]
    held = next(one for one in blocks if one["arm"] == "baseline")
    assert held["values"] is not None, held
    assert int(held["ended_us"]) - int(held["began_us"]) == 10_000_000


def test_a_restart_of_the_controller_goes_on_with_the_block_where_it_was(world: Held) -> None:
    world.until("baseline")
    world.run(2)
    before, version = world.held(), world.engine.stamp.version
    world.start_controller()
    world.run(2)
    assert world.held() == before
    assert world.engine.stamp.version == version
    assert world.cap() == 8


def test_an_operator_s_hold_voids_the_block_and_release_brings_back_what_is_kept(
    world: Held,
) -> None:
    world.until("baseline")
    world.operations.hold("chat", "an incident", by=ADA)
    world.run(3)
    assert world.cap() == 8, "it keeps what it has"
    assert world.void() == "held or killed"
    found = world.held()
    world.run(40)
    assert world.held() == found, "nothing is held back under a hold"
    world.operations.release("chat", "over", by=ADA)
    world.run(3, until=lambda: world.cap() == 16)
    assert world.cap() == 16


def test_a_kill_and_a_pin_win_over_the_baseline_s_block(world: Held) -> None:
    world.until("baseline")
    world.operations.kill("chat", "enough", by=ADA)
    world.run(3)
    assert world.cap() == 16, "last stable is what is kept"
    assert world.stamp() is None


def test_a_rollback_to_what_is_kept_is_not_undone_by_the_baseline_s_block(world: Held) -> None:
    world.until("baseline")
    world.run(1)
    world.operations.rollback("chat", "latency", by=ADA)
    world.run(25, until=lambda: world.cap() != 16)
    assert world.cap() == 16, "nor by the next block"
    assert world.void() == "it was taken off the engine"


def test_a_new_baseline_ends_the_block_of_the_old_one(world: Held) -> None:
    world.until("baseline")
    world.run(1)
    target = world.declared.target.model_copy(update={"baseline": {"active_cap": 4}})
    world.declared = msgspec.structs.replace(world.declared, target=target)
    with world.store.write() as tx:
        bring_in_baseline(tx, "chat", target, now_us=world.clock_us())
    world.start_controller()
    world.run(1, until=lambda: world.cap() != 8)
    assert world.cap() == 16
    assert world.void() == "what is kept, or the baseline, has changed"
    world.run(40, until=lambda: world.cap() != 16)
    assert world.cap() == 4


def test_a_pin_ends_the_baseline_s_block_at_once(world: Held) -> None:
    world.until("baseline")
    set_over(world, value=4)
    world.run(2)
    assert world.cap() == 4
    assert world.void() == "an override began"


def test_an_emergency_lifts_the_baseline_and_the_block_still_counts(tmp_path: Path) -> None:
    rule = {"id": "slow", "when": "batch.tokens_per_s < 400.0", "for": "1s", "emergency": True}
    world = Held(tmp_path, rules=[{**rule, "propose": {"active_cap": "down"}}])
    world.until("baseline")
    world.run(9, until=lambda: world.cap() == 16)
    assert world.cap() == 16, "at the first sign, before the rule has fired"
    assert world.in_arm("baseline")
    found = world.held()
    assert found is not None and found.open is not None
    assert found.open.lifted == "the condition of emergency rule slow is true"
    world.run(200, until=lambda: bool(world.strata()))
    held = next(one for one in world.strata()[0]["blocks"] if one["arm"] == "baseline")
    assert held["values"] is not None and held["void"] is None


def test_a_trial_begins_when_the_block_is_over(world: Held) -> None:
    world.until("candidate")
    policy = world.approved(Setting(value=32))
    world.run(1)
    assert world.policy(policy.id).state == "approved"
    with world.store.read() as tx:
        waits = [entry for entry in tx.audit() if entry.action == "guardrail.waits"]
    assert [one.details["guardrail"] for one in waits] == ["holdback"]
    world.run(15, until=lambda: world.policy(policy.id).state == "on_trial")
    assert world.policy(policy.id).state == "on_trial"
    found = world.held()
    assert found is not None and found.open is None
    assert all(one.block.void is None for one in found.blocks), "none was cut short"
    world.run(20)
    assert world.held() is not None and (world.held() or found).open is None


def test_nothing_is_held_back_where_nothing_is_kept(world: Held) -> None:
    world.operations.revert(world.kept.id, "no", by=ADA)
    world.run(30)
    stamp = world.stamp()
    assert stamp is None
    before = world.held()
    world.run(30)
    assert world.held() == before


def test_without_its_declaration_it_ends_and_is_forgotten(world: Held) -> None:
    world.until("baseline")
    world.undeclare()
    world.run(3)
    assert world.cap() == 16
    assert world.stamp() is None
    world.run(30)
    assert world.held() is None


def test_a_request_of_the_baseline_s_block_says_what_it_met(world: Held) -> None:
    world.until("baseline")
    world.run(2)
    row = world.rows.requests[-1]
    assert row.trial.startswith("hbk_")
    with world.store.read() as tx:
        met = met_by_stamp(tx, row, read={})
    said = {one.id: one for one in met.touched}
    assert said[row.trial].known
    assert "holdback" in said[row.trial].words
    assert world.kept.id not in said, "what is kept had no part in it"


@pytest.mark.parametrize("seed", range(2))
def test_whatever_persons_do_the_baseline_is_only_in_force_in_its_own_blocks(
    tmp_path: Path, seed: int
) -> None:
    """Hold, release, pins and trials at any time; and afterwards what is kept is in force."""
    world = Held(tmp_path)
    rng = Random(seed)
    pins: list[str] = []

    def check() -> bool:
        stamp, cap = world.stamp(), world.cap()
        held = stamp is not None and stamp.id.startswith("hbk_")
        with world.store.read() as tx:
            control = tx.control("chat")
        if not pins and not control.hold and world.engine.book.values() and held:
            assert cap == (8 if stamp is not None and stamp.arm == "baseline" else 16), seed
        return False

    for _ in range(6):
        world.run(rng.uniform(1, 15), until=check)
        act = rng.choice(["hold", "pin", "restart"])
        if act == "hold":
            world.operations.hold("chat", "look", by=ADA)
            world.run(rng.uniform(0.5, 4))
            world.operations.release("chat", "on", by=ADA)
        elif act == "pin":
            pins.append(set_over(world, value=4).id)
            world.run(rng.uniform(0.5, 4))
            assert world.cap() == 4, seed
            world.operations.end_override(pins.pop(), "over", by=ADA)
        else:
            world.start_controller()
        world.run(1.5)
    found = world.held()
    assert found is not None
    drawn = [arm_of(found.plan.seed, one.block.index, 3) for one in found.blocks]
    assert drawn == [one.block.arm for one in found.blocks], seed
    world.undeclare()
    world.run(2)
    assert world.cap() == 16, seed


def test_a_drift_alarm_lifts_the_baseline_and_leaves_no_room_for_another_block(
    world: Held,
) -> None:
    world.until("baseline")
    alarm = Alarm(
        since_us=world.clock_us(), last_us=world.clock_us(), words="slower", digest="d", figures={}
    )
    world.loop._drift = msgspec.structs.replace(world.loop._drift or DriftState(), alarm=alarm)
    world.run(1)
    assert (world.cap(), world.in_arm("baseline")) == (16, True)
    world.run(12)
    assert world.stamp() is None
    world.run(10)
    assert world.stamp() is None


def test_a_declared_change_voids_the_block_and_none_opens_until_it_has_settled(
    world: Held,
) -> None:
    world.until("baseline")
    world.operations.declare_change("chat", "deploy", "v12", by=ADA)
    world.run(2)
    assert (world.void() or "").endswith("is open")
    assert world.cap() == 16
    world.run(15)
    assert world.stamp() is None


def test_a_baseline_beyond_a_wall_that_memory_has_met_is_not_put_in_force() -> None:
    layout = KvLayout(layers=1, kv_heads=1, head_dim=8, value_bits=16, block_tokens=16, blocks=64)
    met = Wall.of(layout, version="v").exhausted(cap=8, context_tokens=100.0, now_us=0)
    known = Walls(met={"v": met}, now="v", context_tokens=100.0)
    noted_ = {WALL: msgspec.json.encode(known).decode()}
    assert _too_much(a_draft(noted_), {"active_cap": Setting(value=8)})
    assert not _too_much(a_draft(noted_), {"active_cap": Setting(value=4)})
    assert not _too_much(a_draft({}), {"active_cap": Setting(value=8)})


def a_draft(noted_: dict[str, str]) -> Draft:
    state = LoopState(
        declared=declared(),
        policies=(),
        trial=None,
        control=Control(target="chat"),
        modes={},
        baseline={},
        overrides=(),
        last_reads={},
        timers=Timers(),
        ours="ctl.",
        noted=noted_,
    )
    return Draft(state, now_us=1, rng=Random(1))

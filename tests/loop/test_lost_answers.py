"""A commit whose answer is lost: the loop goes on from what the store has, not from what it had."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controller.notes import noted
from controller.store.port import Tx
from controller.trial import budget
from policies.settings import Setting
from signals.errors import Unavailable
from tests.loop.cases import anything
from tests.loop.world import World


def test_a_trial_that_began_in_it_is_in_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, quality=anything)
    world.run(3)
    world.approved(Setting(value=16))
    write, tick, lost = world.store.write, world.loop.tick, list[str]()

    def begun() -> bool:
        with world.store.read() as tx:
            return bool(tx.trials(target="chat", limit=1))

    @contextmanager
    def losing() -> Iterator[Tx]:
        with write() as tx:
            yield tx
        if not lost and begun():
            lost.append("an answer")
            raise Unavailable("the answer to COMMIT was lost")

    def patient() -> bool:
        try:
            return tick()
        except Unavailable:
            return False

    monkeypatch.setattr(world.store, "write", losing)
    monkeypatch.setattr(world.loop, "tick", patient)
    world.run(60, until=lambda: bool(world.policies("kept", "reverted")))
    with world.store.read() as tx:
        spent = budget.spent(noted(tx, "chat"))
    assert lost
    assert len(spent.begun) == 1

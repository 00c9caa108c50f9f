"""A relay and a sender that are killed in the middle of their work, and started again."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from controller.store.past_port import Delivery
from controller.webhooks.relay import Relay
from tests.house.tree import ROOT
from tests.webhooks.hooked import Hooked
from tests.webhooks.receiving import receiving

KILLS = 3
ACTS = 30
EACH_ONCE = [number for number in range(ACTS) if number % 3]


class Killed(BaseException):
    """The process is gone: nobody handles it."""


class Dying:
    """A store whose transactions end at some step, before they commit or right after."""

    def __init__(self, hooked: Hooked, rng: random.Random) -> None:
        self._store = hooked.store
        self._rng = rng

    @contextmanager
    def read(self) -> Iterator[object]:
        with self._store.read() as tx:
            yield tx

    @contextmanager
    def write(self) -> Iterator[object]:
        fate = self._rng.random()
        with self._store.write() as tx:
            yield _Tx(tx, steps=self._rng.randrange(8)) if fate < 0.5 else tx
        if fate > 0.8:
            raise Killed


class _Tx:
    """A transaction that lasts so many steps."""

    def __init__(self, tx: object, *, steps: int) -> None:
        self._tx = tx
        self._steps = steps

    def __getattr__(self, name: str) -> object:
        if self._steps == 0:
            raise Killed
        self._steps -= 1
        return getattr(self._tx, name)


@pytest.mark.parametrize("seed", range(5))
def test_a_relay_that_dies_between_any_two_steps_owes_each_entry_once(
    hooked: Hooked, seed: int
) -> None:
    assert _owed_after_deaths(hooked, seed) == EACH_ONCE, f"seed {seed}"


def test_on_postgresql_it_does_so_too(on_postgres: Hooked) -> None:
    assert _owed_after_deaths(on_postgres, 0) == EACH_ONCE


def _owed_after_deaths(hooked: Hooked, seed: int) -> list[int]:
    """Entries that are owed when a relay has come to the end, however often it died."""
    rng = random.Random(seed)
    hooked.declare("ops", "https://hooks.example.org/", "mode.*")
    hooked.bound(batch=4)
    Relay(hooked.store, hooked.settings.webhooks, clock=lambda: 1).step()
    for number in range(ACTS):
        hooked.act("mode.set" if number % 3 else "control.held")
    deaths = 0
    while hooked.state("ops").lag:
        try:
            dying: Any = Dying(hooked, rng)
            Relay(dying, hooked.settings.webhooks, clock=lambda: 1).step()
        except Killed:
            deaths += 1
    assert deaths, f"seed {seed}"
    return [one.entry for one in hooked.deliveries("ops")]


def test_after_kills_each_act_has_one_delivery_and_reached_the_receiver(hooked: Hooked) -> None:
    hooked.declare("ops", "https://hooks.example.org/")
    Relay(hooked.store, hooked.settings.webhooks, clock=lambda: 1).step()
    seed = random.randrange(10**6)
    rng = random.Random(seed)
    acted = 0
    with receiving() as receiver:
        for _ in range(KILLS):
            acted += _killed_after(hooked, receiver.url, acts=rng.randrange(20, 90))
        hooked.declare("ops", receiver.url, "mode.set")
        with hooked.running():
            entries = len(hooked.actions())
            hooked.settled("ops", "delivered", entries)
        assert entries >= acted, f"seed {seed}"
        rows: list[Delivery] = hooked.deliveries("ops")
        assert [one.entry for one in rows] == list(range(entries)), f"seed {seed}"
        reached = Counter(receiver.ids)
    assert set(reached) == {one.id for one in rows}, f"seed {seed}"


def _killed_after(hooked: Hooked, url: str, *, acts: int) -> int:
    """Run a victim until it has acted so often, then kill it; how often it did."""
    words = [sys.executable, "-m", "tests.webhooks.victim", str(hooked.folder), url]
    with subprocess.Popen(words, stdout=subprocess.PIPE, cwd=ROOT) as victim:
        assert victim.stdout is not None
        for _ in range(acts):
            assert victim.stdout.readline() == b"acted\n"
        victim.kill()
        return acts + len(victim.stdout.read().splitlines())

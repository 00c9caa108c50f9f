"""The serve process around its loops: who it is to engines, its threads, whether they live."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from msgspec import Struct

from controller.rules.firing import Rules, Timers
from controller.serve import TargetLoop
from controller.store.port import Store
from controller.wishes import Lower
from policies.ids import new_id
from signals.errors import Broken

STALLED_S = 15.0
"""A loop that made no step for so long is not ready; a slow engine holds it up for a few."""
JOIN_S = 10.0


class Identity(Struct, frozen=True, kw_only=True):
    """``ours`` begins every change id of this controller; ``epoch`` rises with every start."""

    ours: str
    epoch: int


def take_identity(store: Store) -> Identity:
    """This start's identity: the controller's name for ever, and an epoch above all before.

    Engines refuse a lower epoch, so a serve that was thought dead can change nothing any more. It
    is at least the time in seconds: a store that was lost or put back does not fence its own serve.
    """
    now_us = time.time_ns() // 1000
    with store.write() as tx:
        ours = tx.note("controller") or new_id("ctl", now_us, os.urandom(8)) + "."
        epoch = max(int(tx.note("epoch") or 0) + 1, now_us // 1_000_000)
        tx.set_note("controller", ours)
        tx.set_note("epoch", str(epoch))
    return Identity(ours=ours, epoch=epoch)


class Loops:
    """The loop of each target on a thread of its own."""

    def __init__(self, loops: Mapping[str, TargetLoop]) -> None:
        self._loops = dict(loops)
        self._steps = dict.fromkeys(self._loops, -1)
        self._moved_s = dict.fromkeys(self._loops, time.monotonic())
        self._lock = threading.Lock()

    def wake(self) -> None:
        """Make every loop look at once."""
        for loop in self._loops.values():
            loop.wake()

    def lower(self, target: str) -> Lower | None:
        """What a target's loop read last of its layers; None: nothing yet."""
        loop = self._loops.get(target)
        return None if loop is None else loop.lower

    def timers(self, target: str) -> Timers:
        """How a target's rules stood at its loop's last step."""
        loop = self._loops.get(target)
        return Timers() if loop is None else loop.timers

    def swap(self, target: str, rules: Rules) -> None:
        """Let a target's loop go by other rules."""
        self._loops[target].swap(rules)

    def ready(self) -> str | None:
        """Why the loops are not at work; None when they are."""
        now_s = time.monotonic()
        with self._lock:
            for name, loop in self._loops.items():
                if loop.failed is not None:
                    return f"the loop of {name} has stopped: {loop.failed}"
                if loop.steps != self._steps[name]:
                    self._steps[name], self._moved_s[name] = loop.steps, now_s
                if loop.steps == 0:
                    return f"the loop of {name} has not made its first step"
                if now_s - self._moved_s[name] > STALLED_S:
                    return f"the loop of {name} stands still"
        return None

    def check(self) -> None:
        """Raise ``Broken`` when a loop has failed."""
        for name, loop in self._loops.items():
            if loop.failed is not None:
                raise Broken(f"the loop of {name} has stopped") from loop.failed

    @contextmanager
    def running(self, stop: threading.Event) -> Iterator[None]:
        """Run all loops meanwhile; when one fails, ``stop`` is set."""
        threads = [
            threading.Thread(target=_run, args=(loop, stop), name=f"loop-{name}")
            for name, loop in self._loops.items()
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            for loop in self._loops.values():
                loop.stop()
            for thread in threads:
                thread.join(JOIN_S)


def _run(loop: TargetLoop, stop: threading.Event) -> None:
    try:
        loop.run()
    finally:
        stop.set()

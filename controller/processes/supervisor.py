"""``trimtab up``: starts the processes, waits until each is ready, brings crashed ones back.

::

    start all ──► ready? ──► watch ──crash──► wait (Restarts) ──► start it again
        │            │         │
        │            │         └─ SIGTERM, SIGINT ─► stop in order, each within a bound
        └────────────┴─ ended before it was ever ready: stop all, show its log

A child that ends before it was ever ready has a wrong configuration or a taken port: starting it
again would not help, so ``up`` ends and shows the end of its log. Later crashes are never final.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from controller.config.sections import SupervisorSettings
from controller.processes.child import Child, ChildSpec
from controller.processes.child_log import tail
from controller.processes.restarts import Restarts
from signals.errors import Unavailable

POLL_S = 0.1

Report = Callable[[str, str, dict[str, object]], None]
"""Told what happens: (event, child's name, details)."""


class Supervisor:
    """Runs children in the order of ``specs`` and stops them in reverse. Main thread only."""

    def __init__(
        self, specs: Sequence[ChildSpec], settings: SupervisorSettings, report: Report
    ) -> None:
        self._specs = {spec.name: spec for spec in specs}
        self._settings = settings
        self._report = report
        self._children: dict[str, Child] = {}
        self._due: dict[str, float] = {}
        self._restarts = {spec.name: Restarts(settings) for spec in specs}
        self._recovering: dict[str, float] = {}

    @property
    def pids(self) -> dict[str, int]:
        """The process id of each child that was started last."""
        return {name: child.pid for name, child in self._children.items()}

    def start(self, stopping: Callable[[], bool]) -> bool:
        """Start every child and wait until all are ready; False when asked to stop meanwhile.

        Raises ``Unavailable`` when one ends or is not ready in time; the caller then stops.
        """
        for name in self._specs:
            self._begin(name)
        deadline_s = time.monotonic() + self._settings.ready_s
        waiting = list(self._specs)
        while waiting and not stopping():
            waiting = [name for name in waiting if not self._came_up(name)]
            if waiting and time.monotonic() > deadline_s:
                raise Unavailable(self._failure(waiting[0], "is not ready in time"))
            time.sleep(POLL_S if waiting else 0)
        return not waiting

    def watch(self, stopping: Callable[[], bool]) -> None:
        """Bring crashed children back until asked to stop."""
        while not stopping():
            for name in self._specs:
                self._look_after(name, now_s=time.monotonic())
            time.sleep(POLL_S)

    def stop(self) -> None:
        """Stop every child, last started first, each within ``stop_s``."""
        for name in reversed(self._specs):
            child = self._children.get(name)
            if child is not None:
                code = child.stop()
                self._report("stopped", name, {"exit_code": code})

    def _begin(self, name: str) -> None:
        child = Child(self._specs[name], self._settings)
        self._children[name] = child
        self._report("started", name, {"pid": child.pid, "log": str(child.spec.log)})

    def _came_up(self, name: str) -> bool:
        child = self._children[name]
        if child.exit_code() is not None:
            raise Unavailable(self._failure(name, f"ended with {child.exit_code()} at its start"))
        if not child.is_ready():
            return False
        self._report("ready", name, {"pid": child.pid, **child.spec.urls})
        return True

    def _look_after(self, name: str, *, now_s: float) -> None:
        child = self._children[name]
        if name in self._due:
            if now_s >= self._due[name]:
                del self._due[name]
                self._begin(name)
        elif child.exit_code() is not None:
            self._plan_restart(name, now_s)
        elif name in self._recovering and child.is_ready():
            took_s = now_s - self._recovering.pop(name)
            self._report("back", name, {"pid": child.pid, "after_s": round(took_s, 1)})

    def _plan_restart(self, name: str, now_s: float) -> None:
        code = self._children[name].stop()
        at_s = self._restarts[name].crashed(now_s=now_s)
        self._due[name] = at_s
        self._recovering.setdefault(name, now_s)
        event = "crashing" if self._restarts[name].exhausted else "crashed"
        self._report(event, name, {"exit_code": code, "again_in_s": round(at_s - now_s, 2)})

    def _failure(self, name: str, what: str) -> str:
        log = self._specs[name].log
        return f"{name} {what}; the end of {log}:\n{tail(log)}"

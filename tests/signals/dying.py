"""Feature stages in processes of their own that die: of an event, or of a signal from outside.

They are forked from a server that has everything imported, so that a start takes some milliseconds
and hundreds of deaths fit into a test.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Collection
from multiprocessing.process import BaseProcess
from pathlib import Path

from signals.features.batch import Event
from signals.features.joining import Join
from signals.settings import FeatureSettings
from signals.stopping import stop_on_termination
from tests.signals.processes import follow

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["pytest", __name__])
"""pytest, because each process imports the main module, and that does."""


def start(
    folder: Path, *, deadly: Collection[str] = (), raising: bool = False, **settings: float
) -> BaseProcess:
    """A stage over ``folder`` that SIGKILLs itself when it folds feedback of a ``deadly`` id, or
    ends by an error that nothing here knows."""
    arguments = (folder, tuple(deadly), raising, settings)
    process = _context.Process(target=_run, args=arguments, daemon=True)
    process.start()
    return process


def killed(process: BaseProcess, *, after_s: float) -> bool:
    """SIGKILL it then; False: it was dead before."""
    process.join(after_s)
    alive = process.is_alive()
    process.kill()
    process.join(10)
    return alive


def stopped(process: BaseProcess) -> int | None:
    """Ended as told; its exit code."""
    process.terminate()
    process.join(10)
    return process.exitcode


def _run(folder: Path, deadly: Collection[str], raising: bool, settings: dict[str, float]) -> None:
    if deadly:
        _die_of(frozenset(deadly), raising)
    follow(folder, FeatureSettings.model_validate(settings), stop_on_termination())


def _die_of(deadly: frozenset[str], raising: bool) -> None:
    whole = Join.feedback

    def feedback(self: Join, event: Event) -> None:
        if event.signal.id in deadly and raising:
            raise SystemError("a fault of the program, not of the event")
        if event.signal.id in deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        whole(self, event)

    Join.feedback = feedback  # type: ignore[method-assign]

"""The kill and hold latch: a file of its own, fsynced, read before every PATCH (invariant 9).

It stands even when the store is broken: whoever holds this file's state decides, the store follows.

::

    {"chat": [held by ada, killed by bob, released by ada]}     the newest is what is so

Beside what stands, the file keeps the changes before it, so that the store hears of each one under
the name of the person who made it, in order, whatever was killed in between and whoever came first
to the store.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct

from signals.errors import Broken

LatchState = Literal["held", "killed", "detached", "released"]

KEPT: Final = 64
"""Changes of a target that the file keeps. The store is that far behind only when it is away for
long; the journal of acts has all of them then."""


class Latched(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One change of a target's latch, and how it stands since.

    ``detached``: the engine is not ours to change until it is attached. ``released``: nothing
    stands.
    """

    state: LatchState
    actor: str
    reason: str
    since_us: int


Changes = tuple[Latched, ...]
"""Of one target, the newest last."""


def standing(changes: Sequence[Latched]) -> Latched | None:
    """What stands after these changes; None: nothing does."""
    newest = changes[-1] if changes else None
    return None if newest is None or newest.state == "released" else newest


class Latch:
    """The file. A missing file means nothing is latched; a broken one stops the worker loudly."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def folder(self) -> Path:
        """Where it lies."""
        return self._path.parent

    def read(self) -> dict[str, Latched]:
        """Every latched target. Raises ``Broken`` when the file can't be understood."""
        now = {target: standing(changes) for target, changes in self._read().items()}
        return {target: one for target, one in now.items() if one is not None}

    def changes(self, target: str) -> Changes:
        """The latest changes of one target. Raises ``Broken`` as ``read``."""
        return self._read().get(target, ())

    def set(
        self, target: str, latched: Latched, *, over: Collection[LatchState] | None = None
    ) -> bool:
        """Change one target; durable when this returns. A change that was made before is not again.

        ``over``: only where one of these stands now (``released``: where nothing does); False is
        answered, and nothing changed, where that is not so. Setting replaces a file that can't be
        understood, which is kept beside it: a damaged latch must not stand between an operator and
        his kill. Waits for other processes that set it.
        """
        with self._alone():
            state = self._present(releasing=latched.state == "released")
            before = state.get(target, ())
            now = standing(before)
            if over is not None and ("released" if now is None else now.state) not in over:
                return False
            if latched not in before:
                self._write({**state, target: (*before, latched)[-KEPT:]})
        return True

    def _read(self) -> dict[str, Changes]:
        try:
            body = self._path.read_bytes()
        except FileNotFoundError:
            return {}
        try:
            found = msgspec.json.decode(body, type=dict[str, Latched | Changes])
        except msgspec.MsgspecError as error:
            raise Broken(f"latch file {self._path.name} is damaged: {error}") from error
        return {
            target: (one,) if isinstance(one, Latched) else one for target, one in found.items()
        }

    def _present(self, *, releasing: bool) -> dict[str, Changes]:
        try:
            return self._read()
        except Broken:
            if releasing:
                raise
            self._path.replace(self._path.with_suffix(".damaged"))
            return {}

    def _write(self, state: dict[str, Changes]) -> None:
        beside = self._path.with_name(f"{self._path.name}.{os.getpid()}.{threading.get_ident()}")
        with beside.open("wb") as file:
            file.write(msgspec.json.encode(state))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One writer at a time, among threads and processes; the lock goes with its holder."""
        beside = self._path.with_name(self._path.name + ".lock")
        lock = os.open(beside, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

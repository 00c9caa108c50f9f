"""The kill and hold latch: a file of its own, fsynced, read before every PATCH (invariant 9).

It stands even when the store is broken: whoever holds this file's state decides, the store follows.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from signals.errors import Broken

LatchState = Literal["held", "killed", "detached"]

BREAK_GLASS = "break-glass."
"""Begins the change ids of acts past the controller when nobody can say how its own begin."""


class Latched(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One target's latch. ``detached``: the engine is not ours to change until it is attached."""

    state: LatchState
    actor: str
    reason: str
    since_us: int


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
        try:
            body = self._path.read_bytes()
        except FileNotFoundError:
            return {}
        try:
            return msgspec.json.decode(body, type=dict[str, Latched])
        except msgspec.MsgspecError as error:
            raise Broken(f"latch file {self._path.name} is damaged: {error}") from error

    def set(self, target: str, latched: Latched | None) -> None:
        """Set or (None) release one target; durable when this returns.

        Setting replaces a file that can't be understood, which is kept beside it: a damaged latch
        must not stand between an operator and his kill. Waits for other processes that set it.
        """
        with self._alone():
            state = self._present(releasing=latched is None)
            if latched is None:
                state.pop(target, None)
            else:
                state[target] = latched
            self._write(state)

    def _present(self, *, releasing: bool) -> dict[str, Latched]:
        try:
            return self.read()
        except Broken:
            if releasing:
                raise
            self._path.replace(self._path.with_suffix(".damaged"))
            return {}

    def _write(self, state: dict[str, Latched]) -> None:
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

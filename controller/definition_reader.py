"""Metric definitions as other processes see them: the store, read-only, through a short cache.

>>> from pathlib import Path
>>> StoreDefinitions(Path("nowhere/store.db")).current()
Traceback (most recent call last):
signals.errors.Unavailable: the store did not answer: unable to open database file
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from controller.store.address import StoreAddress
from controller.store.settings import StoreSettings
from controller.store.sql import SqlReader
from signals.definitions import Definition
from signals.errors import Rejected, Unavailable

MAX_CACHE_S: Final = 5.0
MAX_VERSIONS: Final = 4096
"""Versions remembered: those of a batch of old events are looked up once, not once an event."""

Key = tuple[str, int]


class StoreDefinitions:
    """A ``signals.definitions.Definitions``. Safe in any thread.

    While the store can't be read, what was read last still holds: only ``serve`` writes it, and
    feedback should not stop because a file is locked. ``current`` gives the same mapping as long
    as nothing changed, so callers may keep what they derive from it.
    """

    def __init__(
        self,
        where: StoreAddress | Path,
        *,
        cache_s: float = 2.0,
        mono: Callable[[], float] = time.monotonic,
        settings: StoreSettings | None = None,
    ) -> None:
        if not 0 <= cache_s <= MAX_CACHE_S:
            raise Rejected(
                f"cache_s = {cache_s:g} is out of range",
                field="cache_s",
                value=cache_s,
                allowed=f"0..{MAX_CACHE_S:g} s",
            )
        self._store = SqlReader(where, settings)
        self._cache_s = cache_s
        self._mono = mono
        self._lock = threading.Lock()
        self._current: Mapping[str, Definition] | None = None
        self._due_s = float("-inf")
        self._versions: OrderedDict[Key, Definition] = OrderedDict()

    def current(self) -> Mapping[str, Definition]:
        """See ``Definitions.current``."""
        with self._lock:
            now_s = self._mono()
            if self._current is None or now_s >= self._due_s:
                self._current = self._read(self._current)
                self._due_s = now_s + self._cache_s
            return self._current

    def version(self, name: str, version: int) -> Definition | None:
        """See ``Definitions.version``. One that is not known here is looked up at once."""
        with self._lock:
            found = self._versions.get((name, version))
            if found is not None:
                return found
            with self._store.read() as tx:
                found = tx.definition(name, version)
            self._remember([found] if found is not None else [])
            return found

    def close(self) -> None:
        """Idempotent."""
        self._store.close()

    def _read(self, before: Mapping[str, Definition] | None) -> Mapping[str, Definition]:
        """Those in force; what is here already when nothing changed, or nothing can be read."""
        try:
            with self._store.read() as tx:
                found = {one.name: one for one in tx.definitions()}
        except Unavailable:
            if before is None:
                raise
            return before
        self._remember(found.values())
        return found if found != before else before

    def _remember(self, found: Iterable[Definition]) -> None:
        for one in found:
            self._versions[one.name, one.version] = one
            self._versions.move_to_end((one.name, one.version))
        while len(self._versions) > MAX_VERSIONS:
            self._versions.popitem(last=False)

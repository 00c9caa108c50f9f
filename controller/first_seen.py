"""In which block of a trial a session came first: read from the feature store, and remembered.

Only what a trial needs to count each session once; after a restart it is read again.
"""

from __future__ import annotations

import hashlib

from msgspec.structs import replace

from controller.judge.sessions import session_of
from controller.state import BlockRows
from signals.features.model import Features

MAX_SESSIONS = 2_000_000
"""Remembered of one trial, 8 bytes of each: about 200 MB. Beyond it blocks are not counted."""


class FirstSeen:
    """Sessions of one trial at a time, the one that was asked for last. Not thread-safe."""

    def __init__(self, features: Features) -> None:
        self._features = features
        self._trial = ""
        self._next_block = 0
        self._seen: set[bytes] = set()

    def told(self, rows: BlockRows, trial: str, block: int) -> BlockRows:
        """A block's rows with those of its sessions that came in an earlier block of the trial.

        Incomplete where there are too many to tell. Raises ``Unavailable``.
        """
        if trial != self._trial or block < self._next_block:
            self._trial, self._next_block, self._seen = trial, 0, set()
        for before in range(self._next_block, block):
            every = self._features.trial_requests(trial, block=before)
            self._seen.update(_short(session_of(row)) for row in every)
            self._next_block = before + 1
            if len(self._seen) > MAX_SESSIONS:
                return replace(rows, incomplete=True)
        named = {session_of(row) for row in rows.requests}
        return replace(rows, earlier=frozenset(n for n in named if _short(n) in self._seen))


def _short(name: str) -> bytes:
    return hashlib.blake2b(name.encode(), digest_size=8).digest()

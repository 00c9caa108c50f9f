"""The pool of KV blocks: a free list, one block table per running sequence, and no leaks.

Invariant: free + held by running sequences = total, and no block is held twice. It is checked when
the engine is idle; a violation stops the worker.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from engine.settings import BLOCK_TOKENS
from signals.errors import Broken


def blocks_for(tokens: int) -> int:
    """KV blocks that ``tokens`` tokens take.

    >>> blocks_for(1), blocks_for(16), blocks_for(17)
    (1, 1, 2)
    """
    return -(-tokens // BLOCK_TOKENS)


class Lease:
    """One running sequence's share of the pool: a row of ``tables`` and the blocks in it."""

    __slots__ = ("blocks", "slot")

    def __init__(self, slot: int) -> None:
        self.slot = slot
        self.blocks: list[int] = []

    @property
    def tokens(self) -> int:
        """Tokens that fit without another block."""
        return len(self.blocks) * BLOCK_TOKENS


class BlockPool:
    """``total`` blocks for at most ``slots`` sequences of at most ``context`` tokens each.

    ``tables`` int32 [slots, blocks of a full context] is what the kernels read.
    """

    def __init__(self, *, total: int, slots: int, context: int) -> None:
        self.total = total
        self.tables = np.zeros((slots, blocks_for(context)), dtype=np.int32)
        self._free = list(range(total - 1, -1, -1))
        self._slots = list(range(slots - 1, -1, -1))

    @property
    def free(self) -> int:
        """Blocks nobody holds."""
        return len(self._free)

    @property
    def used(self) -> int:
        """Blocks held by running sequences."""
        return self.total - self.free

    def lease(self, tokens: int) -> Lease | None:
        """Room for ``tokens`` tokens, or None when the blocks or the slots are not there."""
        if not self._slots or blocks_for(tokens) > self.free:
            return None
        lease = Lease(self._slots.pop())
        while lease.tokens < tokens:
            self._take(lease)
        return lease

    def grow(self, lease: Lease) -> bool:
        """One more block, or False when none is free."""
        if not self._free:
            return False
        self._take(lease)
        return True

    def release(self, lease: Lease) -> None:
        """Give everything back. The lease is empty afterwards."""
        self._free.extend(reversed(lease.blocks))
        self._slots.append(lease.slot)
        lease.blocks = []

    def check(self, leases: Iterable[Lease]) -> None:
        """Raise ``Broken`` unless free and held blocks are exactly the pool, each once."""
        held = [block for lease in leases for block in lease.blocks]
        if sorted(held + self._free) != list(range(self.total)):
            raise Broken(f"KV blocks leaked: {self.free} free + {len(held)} held of {self.total}")

    def _take(self, lease: Lease) -> None:
        block = self._free.pop()
        self.tables[lease.slot, len(lease.blocks)] = block
        lease.blocks.append(block)

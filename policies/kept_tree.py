"""The tree as a server keeps it: subtree roots from level 8 up in memory, the rest made again.

A million entries are 4,000 blocks of 256, so 8,000 hashes are held (half a MiB). A proof needs
lower hashes only inside two blocks: that of the entry, and the unfinished one at the tree's end.
Their leaf hashes are read from the store, and 512 hashes are hashed again within a millisecond.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from policies.merkle import BLOCK, BLOCK_LEVEL, Tree, node_hash, perfect_root
from policies.proofs import Subtree

Leaves = Callable[[int, int], Sequence[bytes]]
"""Leaf hashes of entries ``first`` to ``last`` inclusive, in order."""


class KeptTree:
    """A growing tree. ``size`` is the number of leaves added; ``last`` the newest leaf's hash."""

    def __init__(self) -> None:
        self._tree = Tree()
        self._open: list[bytes] = []
        self._levels: list[list[bytes]] = []
        self.last = b""

    @property
    def size(self) -> int:
        """Leaves added so far."""
        return self._tree.size

    def root(self) -> bytes:
        """The tree hash of all leaves so far."""
        return self._tree.root()

    def extend(self, leaf_hashes: Sequence[bytes]) -> None:
        """Append leaves by their hashes."""
        if not leaf_hashes:
            return
        self._tree.extend(leaf_hashes)
        self.last = leaf_hashes[-1]
        waiting = [*self._open, *leaf_hashes]
        whole = len(waiting) - len(waiting) % BLOCK
        for start in range(0, whole, BLOCK):
            self._close(perfect_root(waiting[start : start + BLOCK]))
        self._open = waiting[whole:]

    def blocks(self) -> int:
        """Whole blocks of 256 leaves."""
        return len(self._levels[0]) if self._levels else 0

    def block_root(self, block: int) -> bytes:
        """The root over the leaves ``[block · 256, (block + 1) · 256)``."""
        return self._levels[0][block]

    def open_leaves(self) -> tuple[bytes, ...]:
        """Hashes of the leaves after the last whole block."""
        return tuple(self._open)

    def subtrees(self, leaves: Leaves) -> Subtree:
        """What proofs are made of. Blocks of leaf hashes are read once for each call of this."""
        rows: dict[int, list[Sequence[bytes]]] = {}

        def subtree(level: int, index: int) -> bytes:
            if level >= BLOCK_LEVEL:
                return self._levels[level - BLOCK_LEVEL][index]
            block = (index << level) // BLOCK
            if block not in rows:
                first = block * BLOCK
                rows[block] = _rows(leaves(first, min(first + BLOCK, self.size) - 1))
            return rows[block][level][index - ((block * BLOCK) >> level)]

        return subtree

    def _close(self, root: bytes) -> None:
        for level in range(len(self._levels) + 1):
            if level == len(self._levels):
                self._levels.append([])
            row = self._levels[level]
            row.append(root)
            if len(row) % 2:
                return
            root = node_hash(row[-2], row[-1])


def _rows(leaf_hashes: Sequence[bytes]) -> list[Sequence[bytes]]:
    """Every level of one block, as far as its subtrees are perfect."""
    rows = [leaf_hashes]
    while len(rows) <= BLOCK_LEVEL:
        row = rows[-1]
        rows.append([node_hash(row[i], row[i + 1]) for i in range(0, len(row) - 1, 2)])
    return rows

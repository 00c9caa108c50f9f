"""The Merkle tree hash of RFC 9162, 2.1.1, over leaf hashes that come one by one.

::

    MTH({})        = SHA-256()                      leaves 0 1 2 3 4
    MTH({d})       = SHA-256(0x00 || d)              perfect subtrees: [0..3] [4]
    MTH(D[0:n])    = SHA-256(0x01 || MTH(D[0:k]) || MTH(D[k:n])),  k the largest power of 2 < n

Only the roots of the perfect subtrees are held, so memory grows with log n. The leaf and node
prefixes differ, so an inner node can never pass for an entry.

>>> tree = Tree()
>>> tree.root().hex()[:16]
'e3b0c44298fc1c14'
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

BLOCK_LEVEL: Final = 8
BLOCK: Final = 1 << BLOCK_LEVEL
"""Leaves that are hashed together, level by level: one by one takes twice as long."""


class Tree:
    """A growing tree. ``size`` is the number of leaves added."""

    def __init__(self) -> None:
        self.size = 0
        self._subtrees: list[bytes] = []

    def add(self, leaf_hash: bytes) -> None:
        """Append a leaf by its hash; as many merges as ``size`` ends in binary ones."""
        merges = self.size
        while merges & 1:
            leaf_hash = node_hash(self._subtrees.pop(), leaf_hash)
            merges >>= 1
        self._subtrees.append(leaf_hash)
        self.size += 1

    def extend(self, leaf_hashes: Sequence[bytes]) -> None:
        """Append many, whole blocks at once."""
        start, end = 0, len(leaf_hashes)
        while start < end and (self.size % BLOCK or end - start < BLOCK):
            self.add(leaf_hashes[start])
            start += 1
        while end - start >= BLOCK:
            self._add_block(perfect_root(leaf_hashes[start : start + BLOCK]))
            start += BLOCK
        for leaf_hash in leaf_hashes[start:]:
            self.add(leaf_hash)

    def root(self) -> bytes:
        """The tree hash of all leaves so far, 32 bytes."""
        if not self._subtrees:
            return hashlib.sha256().digest()
        *lefts, root = self._subtrees
        for left in reversed(lefts):
            root = node_hash(left, root)
        return root

    def _add_block(self, root: bytes) -> None:
        merges = self.size >> BLOCK_LEVEL
        while merges & 1:
            root = node_hash(self._subtrees.pop(), root)
            merges >>= 1
        self._subtrees.append(root)
        self.size += BLOCK


def perfect_root(hashes: Sequence[bytes]) -> bytes:
    """The root over a power of two of hashes, level by level."""
    sha256, row = hashlib.sha256, hashes
    while len(row) > 1:
        pairs = zip(row[::2], row[1::2], strict=True)
        row = [sha256(b"\x01" + left + right).digest() for left, right in pairs]
    return row[0]


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of an inner node."""
    return hashlib.sha256(b"\x01" + left + right).digest()

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

    def root(self) -> bytes:
        """The tree hash of all leaves so far, 32 bytes."""
        if not self._subtrees:
            return hashlib.sha256().digest()
        *lefts, root = self._subtrees
        for left in reversed(lefts):
            root = node_hash(left, root)
        return root


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of an inner node."""
    return hashlib.sha256(b"\x01" + left + right).digest()

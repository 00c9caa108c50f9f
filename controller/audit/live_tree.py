"""The audit's tree beside the store: built at the start, grown as entries are committed.

What was taken in once is remembered, so a store whose past changes is found out: the newest leaf
is compared each time the tree grows, and blocks of older ones in turn (``scrub``). A block that was
found to differ is compared each time from then on, so that it is not forgotten for the next ones.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from controller.store.port import Store, Tx
from policies.kept_tree import KeptTree
from policies.merkle import BLOCK, perfect_root
from policies.proofs import Subtree, consistency, inclusion, root_at
from policies.published import span
from signals.errors import Rejected, Unavailable

AT_ONCE: Final = 10_000


class LiveTree:
    """One for a process. Every method may be called from any thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tree = KeptTree()
        self._lock = threading.RLock()
        self._scrubbed = 0
        self._differed: int | None = None
        self.altered: str | None = None

    @property
    def size(self) -> int:
        """Entries taken in so far."""
        return self._tree.size

    def blocks(self) -> int:
        """Whole blocks of 256 entries, which ``scrub`` goes through."""
        with self._lock:
            return self._tree.blocks()

    def sync(self) -> str | None:
        """Take in what was committed since. Says how the store's past has changed; else None."""
        with self._lock, self._store.read() as tx:
            self.altered = self._changed(tx)
            return self.altered

    def scrub(self, blocks: int) -> str | None:
        """Compare so many blocks with the store, in turn. As ``sync``."""
        with self._lock, self._store.read() as tx:
            for _ in range(min(blocks, self._tree.blocks())):
                block = self._scrubbed % self._tree.blocks()
                self._scrubbed = block + 1
                found = self._differs(tx, block)
                if found is not None:
                    self._differed, self.altered = block, found
                    return found
        return None

    def rebuild(self) -> None:
        """Forget what was taken in; read the store as it is now."""
        with self._lock:
            self._tree = KeptTree()
            self._scrubbed, self._differed = 0, None
            self.sync()

    def head(self) -> tuple[int, bytes]:
        """Size and root as of the last ``sync``."""
        with self._lock:
            return self._tree.size, self._tree.root()

    def root_at(self, size: int) -> bytes:
        """Raises ``Rejected`` beyond the end."""
        with self._subtrees(size) as subtree:
            return root_at(size, subtree)

    def inclusion(self, index: int, size: int) -> tuple[bytes, list[bytes]]:
        """The entry's leaf hash and its path among the first ``size``. Raises ``Rejected``."""
        with self._subtrees(size) as subtree:
            path = inclusion(index, size, subtree)
            return subtree(0, index), path

    def consistency(self, first: int, second: int) -> list[bytes]:
        """Proof that the tree of ``second`` entries has that of ``first`` in it."""
        with self._subtrees(second) as subtree:
            return consistency(first, second, subtree)

    @contextmanager
    def _subtrees(self, size: int) -> Iterator[Subtree]:
        with self._lock, self._store.read() as tx:
            if size > self._tree.size:
                self.altered = self._changed(tx)
            if self.altered is not None:
                raise Unavailable(f"the audit can't prove anything now: {self.altered}")
            if size > self._tree.size:
                raise Rejected(
                    f"the log has {self._tree.size} entries, not {size}",
                    field="size",
                    value=size,
                    allowed=f"up to {self._tree.size}",
                )
            yield self._tree.subtrees(tx.leaf_hashes)

    def _changed(self, tx: Tx) -> str | None:
        """Take in what is new. Says how the store's past has changed."""
        found = self._grow(tx)
        if found is None and self._differed is not None:
            found = self._differs(tx, self._differed)
            self._differed = None if found is None else self._differed
        return found

    def _differs(self, tx: Tx, block: int) -> str | None:
        leaves = tx.leaf_hashes(block * BLOCK, block * BLOCK + BLOCK - 1)
        if len(leaves) == BLOCK and perfect_root(leaves) == self._tree.block_root(block):
            return None
        where = span(block * BLOCK, block * BLOCK + BLOCK)
        return f"leaf hashes of {where} are not the ones that were there before"

    def _grow(self, tx: Tx) -> str | None:
        size, had = tx.audit_size(), self._tree.size
        if size < had:
            return f"{span(size, had)} are gone: the log has {size} entries and had {had}"
        if had and list(tx.leaf_hashes(had - 1, had - 1)) != [self._tree.last]:
            return f"entry {had - 1} is not the one that was there before"
        while self._tree.size < size:
            first = self._tree.size
            leaves = tx.leaf_hashes(first, min(first + AT_ONCE, size) - 1)
            if len(leaves) != min(AT_ONCE, size - first):
                return f"some of {span(first, size)} are missing"
            self._tree.extend(leaves)
        return None

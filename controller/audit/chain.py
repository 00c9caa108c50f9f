"""The cryptographic part of a verification: stored bytes → leaves → tree hash → published heads.

::

    stored bytes ──SHA-256──► leaf hash ──► tree hash at each published size = root of that head?
                                  │
                        as the row or line says?

Whoever edits the bytes of an entry and nothing else is named by its index. Whoever also puts a
matching leaf hash beside them has changed the tree: the first published head that fails tells that
one of the entries since the head before it is not the one that was there.

Rows are taken in batches, since a check of each costs more than its hashes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from typing import Final

from policies.merkle import Tree
from policies.published import Checkpoint, Published, span

MAX_MISSING: Final = 1000
Leaf = tuple[object, object, object]
"""Index, leaf hash, stored bytes (None: archived), as they lie."""


class Chain:
    """Takes leaves in order. ``tree``: over what the bytes hash to; ``archived``: without bytes."""

    def __init__(self, checkpoints: Sequence[Checkpoint] = ()) -> None:
        self.tree = Tree()
        self.archived = 0
        self.last_archived = -1
        self.next = 0
        self.proven = 0
        self.matched = 0
        self._said: Tree | None = None
        self._waiting = list(reversed(checkpoints))
        self._failed: list[Checkpoint] = []

    def take(self, leaves: Sequence[Leaf]) -> Iterator[str]:
        """Findings of a batch; to be drawn to its end."""
        indexes = [leaf[0] for leaf in leaves]
        if indexes != list(range(self.next, self.next + len(leaves))):
            for leaf in leaves:
                yield from self._index(leaf[0])
        else:
            self.next += len(leaves)
        said = [leaf[1] for leaf in leaves]
        sha256, stored = hashlib.sha256, [leaf[2] for leaf in leaves]
        try:
            found = [sha256(b"\x00" + one).digest() for one in stored]  # type: ignore[operator]
        except TypeError:
            found = [self._hashed(*leaf) for leaf in leaves]
            yield from self._without_bytes(leaves)
        if found != said:
            self._said = self._said or deepcopy(self.tree)
            for (index, leaf_hash, one), hashed in zip(leaves, found, strict=True):
                if leaf_hash != hashed and isinstance(one, bytes):
                    yield f"audit entry {index}: stored bytes do not match their leaf hash"
        self._grow(found, said)

    def end(self) -> Iterator[str]:
        """Findings when all leaves were taken."""
        self._reach()
        if self._failed:
            first, more = self._failed[0], len(self._failed) - 1
            one = first.size - self.proven <= 1
            yield (
                f"audit {span(self.proven, first.size)}: {'it is' if one else 'one or more are'}"
                f" not as published: the tree hash of the first {first.size} is not that of heads"
                f" line {first.line}" + (f", nor do {more} later heads agree" if more else "")
            )
        if self._waiting:
            last = self._waiting[0]
            yield (
                f"audit {span(self.tree.size, last.size)}: gone; heads line {last.line} was signed"
                f" over {last.size} entries, here are {self.tree.size}"
            )

    def _grow(self, found: Sequence[bytes], said: Sequence[object]) -> None:
        start = 0
        while start < len(found):
            room = len(found) - start
            if self._waiting:
                self._reach()
            if self._waiting:
                room = min(room, self._waiting[-1].size - self.tree.size)
            end = start + room
            self.tree.extend(found[start:end])
            if self._said is not None:
                self._said.extend([x if isinstance(x, bytes) else b"" for x in said[start:end]])
            start = end
        self._reach()

    def _reach(self) -> None:
        """Compare at each published size that the tree has come to."""
        while self._waiting and self._waiting[-1].size <= self.tree.size:
            here = self._waiting.pop()
            roots = {tree.root() for tree in (self.tree, self._said) if tree is not None}
            if here.root in roots and not self._failed:
                self.proven, self.matched = here.size, self.matched + 1
            else:
                self._failed.append(here)

    def _hashed(self, index: object, said: object, stored: object) -> bytes:
        """The leaf hash of an entry that may have left for an archive."""
        if isinstance(stored, bytes):
            return hashlib.sha256(b"\x00" + stored).digest()
        return said if isinstance(said, bytes) else b""

    def _without_bytes(self, leaves: Sequence[Leaf]) -> Iterator[str]:
        for index, said, stored in leaves:
            if isinstance(stored, bytes):
                continue
            if stored is None and isinstance(said, bytes) and len(said) == 32:
                self.archived += 1
                self.last_archived = index if isinstance(index, int) else self.last_archived
            else:
                yield f"audit entry {index}: it has no stored bytes"

    def _index(self, index: object) -> Iterator[str]:
        if not isinstance(index, int):
            yield f"audit entry {index!r}: its index is not a number"
            return
        if index < self.next:
            yield f"audit entry {index}: its index is below 0"
        for missing in range(self.next, min(index, self.next + MAX_MISSING)):
            yield f"audit entry {missing}: it is missing"
        self.next = max(self.next, index + 1)


def check_bytes(entries: Iterable[Sequence[Leaf]], published: Published | None) -> list[str]:
    """All findings of batches of leaves against what was published; nothing else is looked at."""
    chain = Chain(() if published is None else published.checkpoints)
    findings = [] if published is None else list(published.findings)
    for batch in entries:
        findings += chain.take(batch)
    return findings + list(chain.end())

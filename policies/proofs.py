"""Proofs of the Merkle tree: that an entry is in it, and that it only grew. RFC 9162, 2.1.3, 2.1.4.

::

    inclusion of entry 2 among 7         consistency of 3 with 7
              root                                 root
           /        \\                           /        \\
        *             [x]                    *            [x]
      /   \\         4 5   6               /    \\        4 5   6
    [x]     *                           [x]     *
    0 1   2   [3]                       0 1   [2] [3]

``[x]`` are the hashes of the path: with them and what the auditor has, he computes the root himself
and compares. Both proofs are at most ⌈log2 size⌉ + 1 hashes long.

The maker asks for hashes of perfect subtrees, ``subtree(level, index)`` being the root over the
entries ``[index · 2^level, (index + 1) · 2^level)``; whoever keeps the tree decides what is held in
memory and what is computed again. Verifying is the RFC's own algorithm and needs no tree.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from policies.merkle import node_hash
from signals.errors import Rejected

Subtree = Callable[[int, int], bytes]


def root_at(size: int, subtree: Subtree) -> bytes:
    """The tree hash over the first ``size`` entries."""
    return _range_root(0, size, subtree) if size else hashlib.sha256().digest()


def inclusion(index: int, size: int, subtree: Subtree) -> list[bytes]:
    """PATH(index, D[0:size]), from the leaf's side up. Raises ``Rejected`` outside the tree."""
    if not 0 <= index < size:
        raise Rejected(
            f"entry {index} is not among the first {size}",
            field="index",
            value=index,
            allowed=f"0..{size - 1}",
        )
    path: list[bytes] = []
    start, end = 0, size
    while end - start > 1:
        middle = start + _split(end - start)
        if index < middle:
            path.append(_range_root(middle, end, subtree))
            end = middle
        else:
            path.append(_range_root(start, middle, subtree))
            start = middle
    return path[::-1]


def consistency(first: int, second: int, subtree: Subtree) -> list[bytes]:
    """PROOF(first, D[0:second]); empty where both are the same. Raises ``Rejected``."""
    if not 0 < first <= second:
        raise Rejected(
            f"a tree of {first} entries can't grow into one of {second}",
            field="first",
            value=first,
            allowed=f"1..{second}",
        )
    path: list[bytes] = []
    start, end, whole = 0, second, True
    while first < end:
        middle = start + _split(end - start)
        if first <= middle:
            path.append(_range_root(middle, end, subtree))
            end = middle
        else:
            path.append(_range_root(start, middle, subtree))
            start, whole = middle, False
    if not whole:
        path.append(_range_root(start, end, subtree))
    return path[::-1]


def proves_inclusion(
    leaf_hash: bytes, index: int, size: int, path: Sequence[bytes], root: bytes
) -> bool:
    """Whether the path leads from the leaf to the root (RFC 9162, 2.1.3.2)."""
    if not 0 <= index < size:
        return False
    fn, sn, found = index, size - 1, leaf_hash
    for sibling in path:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            found = node_hash(sibling, found)
            while fn and not fn & 1:
                fn, sn = fn >> 1, sn >> 1
        else:
            found = node_hash(found, sibling)
        fn, sn = fn >> 1, sn >> 1
    return sn == 0 and found == root


def proves_consistency(
    first: int, first_root: bytes, second: int, second_root: bytes, path: Sequence[bytes]
) -> bool:
    """Whether the second tree is the first one, grown (RFC 9162, 2.1.4.2)."""
    if not 0 < first <= second:
        return False
    if first == second:
        return not path and first_root == second_root
    if not path:
        return False
    hashes = list(path)
    if first & (first - 1) == 0:
        hashes.insert(0, first_root)
    fn, sn = first - 1, second - 1
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    first_found = second_found = hashes[0]
    for sibling in hashes[1:]:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            first_found = node_hash(sibling, first_found)
            second_found = node_hash(sibling, second_found)
            while fn and not fn & 1:
                fn, sn = fn >> 1, sn >> 1
        else:
            second_found = node_hash(second_found, sibling)
        fn, sn = fn >> 1, sn >> 1
    return sn == 0 and first_found == first_root and second_found == second_root


def _split(size: int) -> int:
    """The largest power of two below ``size`` (which is at least 2)."""
    return 1 << ((size - 1).bit_length() - 1)


def _range_root(start: int, end: int, subtree: Subtree) -> bytes:
    """MTH(D[start:end]) for a range that the recursion makes: ``start`` is aligned to it."""
    size = end - start
    if size & (size - 1) == 0:
        level = size.bit_length() - 1
        return subtree(level, start >> level)
    middle = start + _split(size)
    return node_hash(_range_root(start, middle, subtree), _range_root(middle, end, subtree))

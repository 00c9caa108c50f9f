"""Proofs against Certificate Transparency's published ones, and against the RFC's recursion."""

from __future__ import annotations

import hashlib
import random

import pytest

from policies.audit import leaf_hash
from policies.kept_tree import KeptTree
from policies.merkle import Tree, node_hash
from policies.proofs import (
    consistency,
    inclusion,
    proves_consistency,
    proves_inclusion,
    root_at,
)
from signals.errors import Rejected
from tests.policies.test_audit import LEAVES, ROOTS

# (index, size): the path that Certificate Transparency's own implementations are tested with.
INCLUSION = {
    (0, 1): [],
    (0, 8): [
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ],
    (5, 8): [
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ],
    (2, 3): ["fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"],
    (1, 5): [
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    ],
}
CONSISTENCY = {
    (1, 1): [],
    (1, 8): [
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ],
    (6, 8): [
        "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ],
    (2, 5): [
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    ],
}
MOST = 200


def leaves(count: int) -> list[bytes]:
    return [leaf_hash(number.to_bytes(2, "big")) for number in range(count)]


def kept(hashes: list[bytes]) -> KeptTree:
    tree = KeptTree()
    tree.extend(hashes)
    return tree


def split(size: int) -> int:
    k = 1
    while k * 2 < size:
        k *= 2
    return k


def mth(hashes: list[bytes]) -> bytes:
    """RFC 9162, 2.1.1, word for word."""
    if len(hashes) <= 1:
        return hashes[0] if hashes else hashlib.sha256().digest()
    k = split(len(hashes))
    return node_hash(mth(hashes[:k]), mth(hashes[k:]))


def path(m: int, hashes: list[bytes]) -> list[bytes]:
    """RFC 9162, 2.1.3.1, word for word."""
    if len(hashes) == 1:
        return []
    k = split(len(hashes))
    if m < k:
        return [*path(m, hashes[:k]), mth(hashes[k:])]
    return [*path(m - k, hashes[k:]), mth(hashes[:k])]


def subproof(m: int, hashes: list[bytes], *, whole: bool) -> list[bytes]:
    """RFC 9162, 2.1.4.1, word for word."""
    if m == len(hashes):
        return [] if whole else [mth(hashes)]
    k = split(len(hashes))
    if m <= k:
        return [*subproof(m, hashes[:k], whole=whole), mth(hashes[k:])]
    return [*subproof(m - k, hashes[k:], whole=False), mth(hashes[:k])]


@pytest.fixture(scope="module")
def published() -> KeptTree:
    return kept([leaf_hash(bytes.fromhex(leaf)) for leaf in LEAVES])


def reading(hashes: list[bytes]):  # type: ignore[no-untyped-def]
    return lambda first, last: hashes[first : last + 1]


def test_proofs_are_the_published_ones() -> None:
    hashes = [leaf_hash(bytes.fromhex(leaf)) for leaf in LEAVES]
    subtree = kept(hashes).subtrees(reading(hashes))
    for (index, size), wanted in INCLUSION.items():
        found = inclusion(index, size, subtree)
        assert [one.hex() for one in found] == wanted
        root = bytes.fromhex(ROOTS[size - 1])
        assert proves_inclusion(hashes[index], index, size, found, root)
    for (first, second), wanted in CONSISTENCY.items():
        found = consistency(first, second, subtree)
        assert [one.hex() for one in found] == wanted
        roots = bytes.fromhex(ROOTS[first - 1]), bytes.fromhex(ROOTS[second - 1])
        assert proves_consistency(first, roots[0], second, roots[1], found)


def test_every_proof_up_to_two_hundred_entries_is_the_rfc_s_own() -> None:
    hashes = leaves(MOST)
    subtree = kept(hashes).subtrees(reading(hashes))
    roots = [root_at(size, subtree) for size in range(MOST + 1)]
    assert roots == [mth(hashes[:size]) for size in range(MOST + 1)]
    for size in range(1, MOST + 1):
        for index in range(size):
            assert proves_inclusion(
                hashes[index], index, size, inclusion(index, size, subtree), roots[size]
            )
            first = index + 1
            found = consistency(first, size, subtree)
            assert proves_consistency(first, roots[first], size, roots[size], found)
    for size in range(1, MOST + 1, 7):
        for index in range(size):
            assert inclusion(index, size, subtree) == path(index, hashes[:size])
            wanted = subproof(index + 1, hashes[:size], whole=True)
            assert consistency(index + 1, size, subtree) == wanted


def test_a_proof_with_one_bit_changed_or_of_something_else_proves_nothing() -> None:
    hashes, chance = leaves(MOST), random.Random(9)
    subtree = kept(hashes).subtrees(reading(hashes))
    for _ in range(500):
        size = chance.randrange(2, MOST + 1)
        index, root = chance.randrange(size), root_at(size, subtree)
        good = inclusion(index, size, subtree)
        assert not proves_inclusion(hashes[index], index, size, flipped(good, chance), root)
        assert not proves_inclusion(hashes[index], index, size, good[1:], root)
        assert not proves_inclusion(hashes[index], index, size, [*good, root], root)
        assert not proves_inclusion(hashes[index - 1], index, size, good, root)
        first = chance.randrange(1, size)
        before, grown = root_at(first, subtree), consistency(first, size, subtree)
        assert not proves_consistency(first, before, size, root, flipped(grown, chance))
        assert not proves_consistency(first, before, size, root, [*grown, root])
        assert not proves_consistency(first, before, size, root, [])
        assert not proves_consistency(first, root, size, root, grown)
    assert not proves_inclusion(hashes[0], 3, 3, [], hashes[0])
    assert not proves_consistency(0, mth([]), 3, mth(hashes[:3]), [])


def flipped(found: list[bytes], chance: random.Random) -> list[bytes]:
    place = chance.randrange(len(found))
    changed = bytes([found[place][0] ^ 1]) + found[place][1:]
    return [*found[:place], changed, *found[place + 1 :]]


def test_what_is_not_in_the_tree_is_refused() -> None:
    subtree = kept(leaves(5)).subtrees(reading(leaves(5)))
    with pytest.raises(Rejected, match="entry 5 is not among the first 5"):
        inclusion(5, 5, subtree)
    with pytest.raises(Rejected, match="a tree of 4 entries can't grow into one of 3"):
        consistency(4, 3, subtree)
    with pytest.raises(Rejected, match="a tree of 0 entries"):
        consistency(0, 3, subtree)


def test_a_kept_tree_reads_two_blocks_for_a_proof_however_large_it_is() -> None:
    hashes = [number.to_bytes(32, "big") for number in range(5000)]
    tree, plain, read = KeptTree(), Tree(), []
    chance, start = random.Random(4), 0
    while start < len(hashes):
        end = start + chance.choice((1, 3, 255, 256, 257, 700))
        tree.extend(hashes[start:end])
        start = end
    for one in hashes:
        plain.add(one)
    assert (tree.size, tree.root(), tree.last) == (5000, plain.root(), hashes[-1])
    assert tree.blocks() == 5000 // 256
    assert len(tree.open_leaves()) == 5000 % 256

    def leaves_read(first: int, last: int) -> list[bytes]:
        read.append((first, last))
        return hashes[first : last + 1]

    for index, size in ((17, 5000), (4999, 5000), (300, 4097), (0, 1), (2047, 3000)):
        subtree = tree.subtrees(leaves_read)
        root = mth(hashes[:size])
        assert root_at(size, subtree) == root
        assert proves_inclusion(hashes[index], index, size, inclusion(index, size, subtree), root)
        assert len(read) <= 2
        assert all(last - first < 256 for first, last in read)
        read.clear()


def test_many_leaves_at_once_make_the_tree_that_one_by_one_makes() -> None:
    chance = random.Random(2)
    for _ in range(30):
        hashes = [chance.randbytes(32) for _ in range(chance.randrange(1200))]
        at_once, plain = Tree(), Tree()
        cut = chance.randrange(len(hashes) + 1)
        at_once.extend(hashes[:cut])
        at_once.extend(hashes[cut:])
        for one in hashes:
            plain.add(one)
        assert (at_once.size, at_once.root()) == (plain.size, plain.root())

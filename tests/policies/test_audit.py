"""Canonical bytes, leaf hashes and the tree over them, against published figures."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import msgspec
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from policies.audit import EXACT, Entry, canonical, leaf_hash, plain
from policies.merkle import Tree, node_hash
from policies.settings import Setting

# The eight leaves and their roots are the ones that Certificate Transparency's own
# implementations are tested with.
LEAVES = [
    "",
    "00",
    "10",
    "2021",
    "3031",
    "40414243",
    "5051525354555657",
    "606162636465666768696a6b6c6d6e6f",
]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=10),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("abcde", max_size=3), inner)
    ),
    max_leaves=12,
)
details = st.dictionaries(st.text("abcde", max_size=4), values)


def entry(inside: dict[str, Any]) -> Entry:
    return Entry(
        index=3,
        at_us=1_750_000_000_000_000,
        actor="key_1",
        action="policy.kept",
        subject="pol_1",
        target="chat",
        details=inside,
    )


def test_the_tree_hash_is_the_published_one_at_every_size() -> None:
    tree = Tree()
    assert tree.root() == hashlib.sha256().digest()
    for size, (leaf, root) in enumerate(zip(LEAVES, ROOTS, strict=True), 1):
        tree.add(leaf_hash(bytes.fromhex(leaf)))
        assert tree.root().hex() == root
        assert tree.size == size


@given(st.lists(st.binary(max_size=4), max_size=70))
def test_the_tree_grown_leaf_by_leaf_is_the_one_of_the_definition(entries: list[bytes]) -> None:
    tree = Tree()
    for one in entries:
        tree.add(leaf_hash(one))
    assert tree.root() == by_definition(entries)


def by_definition(entries: list[bytes]) -> bytes:
    """RFC 9162, 2.1.1, word for word."""
    if not entries:
        return hashlib.sha256().digest()
    if len(entries) == 1:
        return leaf_hash(entries[0])
    k = 1
    while k * 2 < len(entries):
        k *= 2
    return node_hash(by_definition(entries[:k]), by_definition(entries[k:]))


@given(details)
def test_canonical_bytes_hold_no_float_and_read_back_as_what_was_meant(
    inside: dict[str, Any],
) -> None:
    stored = canonical(entry(inside))
    read = msgspec.json.decode(stored, type=Entry)
    assert read == entry(plain(inside))
    assert rfc8785.dumps(json.loads(stored)) == stored
    assert not has_float(json.loads(stored))


def has_float(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(has_float, value.values()))
    if isinstance(value, list):
        return any(map(has_float, value))
    return isinstance(value, float) or (isinstance(value, int) and abs(value) > EXACT)


@given(st.floats(allow_nan=False))
def test_a_float_is_kept_to_its_last_bit(figure: float) -> None:
    assert float(plain(figure)) == figure


@given(details, details)
def test_other_details_make_another_leaf(one: dict[str, Any], two: dict[str, Any]) -> None:
    same = json.dumps(plain(one), sort_keys=True) == json.dumps(plain(two), sort_keys=True)
    assert (leaf_hash(canonical(entry(one))) == leaf_hash(canonical(entry(two)))) == same


def test_the_order_of_details_does_not_matter() -> None:
    assert canonical(entry({"a": 1, "b": 2})) == canonical(entry({"b": 2, "a": 1}))


def test_records_go_in_as_objects_and_truth_values_stay_themselves() -> None:
    assert plain({"s": Setting(value=3), "yes": True, "list": (1, 2.5)}) == {
        "s": {"value": 3, "law": None, "shrink": "drain"},
        "yes": True,
        "list": [1, "2.5"],
    }


def test_a_leaf_hash_is_not_the_hash_of_the_bytes_alone() -> None:
    stored = canonical(entry({}))
    assert leaf_hash(stored) == hashlib.sha256(b"\x00" + stored).digest()

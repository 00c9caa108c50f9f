"""Entries a second of the offline verifier over stored bytes, beside bare SHA-256 of the same.

The limit is two hashes an entry: its leaf, and one inner node of the tree. Beside the check of
bytes, leaves, tree and signed heads alone: a whole export with all that its entries say, and a
store with every row that they are about.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from benchmarks.audit.loading import load
from benchmarks.figures import Figures, median, say, spread
from controller.audit.chain import Leaf, check_bytes
from controller.audit.export import export
from controller.audit.verify import verify, verify_export
from controller.store.address import StoreAddress, address_of
from controller.store.audit_file import open_audit
from controller.store.sql import open_store
from policies.heads import Head, PublicKey, PublicKeys, key_id, public_bytes, signed
from policies.merkle import Tree
from policies.published import Published, read_published

BATCH: Final = 2000
HEAD_EVERY: Final = 1000
LOG: Final = "log_bench"


def measure(folder: Path, policies: int, repeats: int, seed: int, told: Figures) -> bool:
    """True when nothing was found; verify_entries_s."""
    address = address_of(folder / "store.db")
    store = open_store(address)
    past = load(store, address, policies, seed=seed, sample=1)
    store.close()
    batches = _batches(address)
    published = _published(batches)
    entries = past.entries
    rates = {
        "bytes": _rates(entries, lambda: check_bytes(batches, published), repeats),
        "limit": _rates(entries, lambda: _two_hashes(batches), repeats),
    }
    lines = list(export(address))
    rates["export"] = _rates(
        entries, lambda: list(verify_export(lines, outside=None).findings), repeats
    )
    rates["store"] = _rates(entries, lambda: list(verify(address).findings), repeats)
    for name, found in rates.items():
        say(f"verify {name:<7} entries/s {spread(found)}")
        told.more[f"verify_{name}_entries_s"] = round(median(found))
    told.more["verified_entries"] = entries
    told.more["verified_heads"] = len(published.checkpoints)
    told.key("verify_entries_s", median(rates["bytes"]))
    return True


def _batches(address: StoreAddress) -> list[list[Leaf]]:
    found: list[list[Leaf]] = []
    with open_audit(address) as file:
        rows = ((row.leaf_index, row.leaf_hash, row.stored) for row in file.entries())
        while batch := list(islice(rows, BATCH)):
            found.append(batch)
    return found


def _published(batches: Sequence[Sequence[Leaf]]) -> Published:
    """A head for every thousand entries, signed in earnest."""
    key, tree, lines = Ed25519PrivateKey.generate(), Tree(), []
    public = public_bytes(key)
    for _, leaf_hash, _ in _leaves(batches):
        assert isinstance(leaf_hash, bytes)
        tree.add(leaf_hash)
        if tree.size % HEAD_EVERY == 0:
            head = Head(
                log=LOG, size=tree.size, root=tree.root().hex(), at_us=tree.size, key=key_id(public)
            )
            lines.append(signed(head, key))
    known = PublicKey(id=key_id(public), public=public.hex(), from_us=0)
    return read_published(lines, PublicKeys(log=LOG, keys=(known,)))


def _leaves(batches: Sequence[Sequence[Leaf]]) -> Iterator[Leaf]:
    for batch in batches:
        yield from batch


def _two_hashes(batches: Sequence[Sequence[Leaf]]) -> list[str]:
    """What no verifier of this tree can do without."""
    sha256 = hashlib.sha256
    for _, leaf_hash, stored in _leaves(batches):
        sha256(b"\x00" + stored).digest()  # type: ignore[operator]
        sha256(b"\x01" + leaf_hash + leaf_hash).digest()  # type: ignore[operator]
    return []


def _rates(entries: int, check: Callable[[], list[str]], repeats: int) -> list[float]:
    found = []
    for _ in range(repeats):
        began_s = time.perf_counter()
        findings = check()
        found.append(entries / (time.perf_counter() - began_s))
        if findings:
            raise RuntimeError(f"a log that nobody touched: {findings[:3]}")
    return found

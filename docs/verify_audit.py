"""A second verifier of Trimtab's audit, of nothing but Python and `cryptography`: read it all.

    python verify_audit.py audit.jsonl heads.jsonl audit.public.json

It shares no code with Trimtab. Take the heads first and the export after; docs/audit.md has more.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


def node(left: bytes, right: bytes) -> bytes:
    """RFC 9162, 2.1.1: the hash of an inner node."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def tree_hash(stack: list[tuple[int, bytes]]) -> bytes:
    """The root over perfect subtrees, largest first."""
    root = stack[-1][1] if stack else hashlib.sha256().digest()
    for _, left in reversed(stack[:-1]):
        root = node(left, root)
    return root


def signed(line: dict[str, Any], key: str, public: dict[str, str]) -> bool:
    """Whether that key has signed the line's body, which is checked as it stands."""
    try:
        verifier = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public[key]))
        verifier.verify(base64.b64decode(line["signatures"][key]), line["body"].encode())
        return True
    except (InvalidSignature, KeyError, TypeError, ValueError):
        return False


def published(lines: Iterable[Any], keys: dict[str, Any], found: list[str]) -> dict[int, str]:
    """The root that each published size must have, after rotations and restores."""
    public = {key["id"]: key["public"] for key in keys["keys"]}
    active, at_us, tip, must = None, 0, (0, ""), dict[int, str]()
    for number, raw in enumerate(dict.fromkeys(lines), 1):
        try:
            line = json.loads(raw)
            said = json.loads(line["body"])
            good = signed(line, said["key"], public) and said["log"] == keys["log"]
        except (ValueError, TypeError, KeyError, RecursionError):
            print(f"heads line {number} is torn")
            continue
        if not good or active not in (None, said["key"]) or said["at_us"] < at_us:
            found.append(f"heads line {number} is not a statement of this log's key in its order")
            continue
        active, at_us = said["key"], said["at_us"]
        if said["type"] == "rotation":
            new, named = said["new"], hashlib.sha256(bytes.fromhex(said["public"])).hexdigest()
            if named[:16] != new or not signed(line, new, {new: said["public"]}):
                found.append(f"heads line {number}: the new key has not signed the rotation")
                continue
            public[new], active = said["public"], new
            print(f"key {said['key']} handed over to {new}, by {said['by']}")
            continue
        size, root = said["size"], said["root"]
        if said["type"] == "restore":
            if (said["last_size"], said["last_root"]) != tip or (size and must.get(size) != root):
                found.append(f"heads line {number}: a restore of other heads than the published")
            must = {n: r for n, r in must.items() if n <= size}
            print(f"backup put back by {said['by']} ({said['reason']}): on from {size} entries")
        elif size < tip[0] or must.get(size, root) != root:
            found.append(f"heads line {number}: the log went back from {tip[0]} to {size} entries")
        must[size], tip = root, (size, root)
    return must


def leaves(lines: Iterable[Any], found: list[str]) -> Iterator[bytes]:
    """The leaf hash of each entry, made from its bytes; of an archived one, as exported."""
    archived = 0
    for index, raw in enumerate(lines):
        line = json.loads(raw)
        leaf, entry = bytes.fromhex(line["leaf_hash"]), line["entry"]
        if line["index"] != index:
            found.append(f"entry {index} is missing: here is {line['index']}")
        bare = hashlib.sha256(b"\x00" + (entry or "").encode()).digest()
        if len(leaf) != 32 or (entry is not None and bare != leaf):
            found.append(f"entry {index}: its bytes do not match its leaf hash")
        archived += entry is None
        yield leaf
    if archived:
        print(f"{archived} entries without their bytes: what they said is not proven")


def check(export: Iterable[Any], heads: Iterable[Any], keys: dict[str, Any]) -> list[str]:
    """Every finding; none for an honest log."""
    found, stack, size, good = list[str](), list[tuple[int, bytes]](), 0, 0
    must = published(heads, keys, found)
    for leaf in leaves(export, found):
        stack.append((1, leaf))
        while len(stack) > 1 and stack[-1][0] == stack[-2][0]:
            (n, right), (_, left) = stack.pop(), stack.pop()
            stack.append((2 * n, node(left, right)))
        size += 1
        if size in must and must[size] != tree_hash(stack).hex():
            return [*found, f"entries {good}–{size - 1}: one or more are not as published"]
        good = size if size in must else good
    if must and max(must) > size:
        found.append(f"entries {size}–{max(must) - 1} are gone: a head of {max(must)} was signed")
    print(f"{size} entries, root {tree_hash(stack).hex()}; {size - good} since the newest head")
    return found


if __name__ == "__main__":
    with open(sys.argv[1], "rb") as log, open(sys.argv[2], "rb") as sink, open(sys.argv[3]) as keys:
        findings = check(log, sink, json.load(keys))
    print("\n".join(findings) or "clean")
    sys.exit(bool(findings))

"""What ``trimtab audit`` does without a control plane: files in, findings out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from controller.audit.export import export
from controller.audit.verify import Outside, Verification, verify, verify_export
from controller.store.address import StoreAddress, address_of
from policies.proofs import proves_consistency, proves_inclusion
from policies.published import decode_keys
from signals.errors import Rejected


def outside(heads: Path | None, public_keys: Path | None) -> Outside | None:
    """Heads and the keys to check them by. Raises ``Rejected`` for one without the other."""
    if heads is None and public_keys is None:
        return None
    if heads is None or public_keys is None:
        missing = "heads" if heads is None else "public_keys"
        raise Rejected("heads are checked by public keys: give both files", field=missing)
    return Outside(lines=_lines(heads), keys=decode_keys(public_keys.read_bytes()))


def of_store(where: str, outside: Outside | None, archives: Path | None) -> Verification:
    """Check a store."""
    return verify(_address(where), outside=outside, archives=archives)


def of_export(path: Path, outside: Outside | None, archives: Iterable[Path]) -> Verification:
    """Check an export."""
    return verify_export(_lines(path), outside=outside, archives=archives)


def lines_of(where: str, after: int, archives: Path | None) -> Iterator[bytes]:
    """The export of a store."""
    return export(_address(where), after=after, archives=archives)


def holds(proof: dict[str, Any]) -> bool:
    """Whether a proof that the control plane gave is one."""
    path = [bytes.fromhex(one) for one in proof["path"]]
    if "index" in proof:
        leaf, root = bytes.fromhex(proof["leaf_hash"]), bytes.fromhex(proof["root"])
        return proves_inclusion(leaf, proof["index"], proof["size"], path, root)
    roots = bytes.fromhex(proof["first_root"]), bytes.fromhex(proof["second_root"])
    return proves_consistency(proof["first"], roots[0], proof["second"], roots[1], path)


def _address(where: str) -> StoreAddress:
    return address_of(where if "://" in where else Path(where))


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from file

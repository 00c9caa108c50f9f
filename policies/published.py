"""What was published outside, read in order: which heads today's log must still be able to show.

::

    line   statement                        the log of today must show
    1      head      10 entries, root a     10 → a
    2      head      25 entries, root b     10 → a, 25 → b
    3      rotation  key 1 → key 2          (signed by both; heads of key 1 are refused from here)
    4      head      40 entries, root c     10 → a, 25 → b, 40 → c
    5      restore   go on from 25          10 → a, 25 → b            40 → c is given up, on record
    6      head      31 entries, root d     10 → a, 25 → b, 31 → d

Sizes never fall and time never runs back without a restore statement. A line that was torn by a
crash while it was written says nothing; it is told, and it is no fault. A line that comes again, at
once or late, counts once: a server was slow or its answer was lost, and it was sent again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from policies.heads import (
    Head,
    Line,
    PublicKeys,
    Restore,
    Rotation,
    Statement,
    key_id,
    parsed,
    signed_by,
)
from signals.errors import Rejected


class Checkpoint(Struct, frozen=True, kw_only=True):
    """A published head: at ``size`` entries the tree hash is ``root``."""

    size: int
    root: bytes
    at_us: int
    line: int


class Published(Struct, frozen=True, kw_only=True):
    """``checkpoints``: by size, each size once. ``findings``: what can't be so; ``notes``: told.

    ``last``: the newest head or restore, None where nothing was published.
    """

    log: str
    checkpoints: tuple[Checkpoint, ...]
    given_up: tuple[Checkpoint, ...]
    rotations: tuple[Rotation, ...]
    restores: tuple[tuple[Restore, str], ...]
    findings: tuple[str, ...]
    notes: tuple[str, ...]
    last: Head | Restore | None
    key: str | None


def read_published(lines: Iterable[bytes | str], keys: PublicKeys) -> Published:
    """Follow the sink's lines with the keys that the auditor trusts.

    The first key is trusted because it is in the file; later ones because the key before signed
    them. Where the lines begin after a rotation, the file must hold the key that signs the first.
    """
    reader = _Reader(keys)
    for number, line in enumerate(lines, 1):
        if line.strip():
            reader.take(number, line)
    return reader.published()


class _Reader:
    def __init__(self, keys: PublicKeys) -> None:
        self._log = keys.log
        self._keys = keys.by_id()
        self._active: str | None = None
        self._standing: dict[int, Checkpoint] = {}
        self._tip: Checkpoint | None = None
        self._given_up: list[Checkpoint] = []
        self._rotations: list[Rotation] = []
        self._restores: list[tuple[Restore, str]] = []
        self._findings: list[str] = []
        self._notes: list[str] = []
        self._last: Head | Restore | None = None
        self._last_us = 0
        self._seen: set[bytes] = set()

    def take(self, number: int, raw: bytes | str) -> None:
        try:
            line, statement = parsed(raw)
        except Rejected as error:
            self._notes.append(f"heads line {number} is torn or no statement: {error.detail}")
            return
        digest = hashlib.sha256(line.body.encode()).digest()
        if digest in self._seen:
            return
        self._seen.add(digest)
        wrong = self._wrong(line, statement)
        if wrong is not None:
            self._findings.append(f"heads line {number}: {wrong}")
            return
        self._active, self._last_us = statement.key, statement.at_us
        match statement:
            case Head():
                self._head(number, statement)
            case Rotation():
                self._rotation(number, line, statement)
            case Restore():
                self._restore(number, line, statement)

    def published(self) -> Published:
        return Published(
            log=self._log,
            checkpoints=tuple(self._standing[size] for size in sorted(self._standing)),
            given_up=tuple(self._given_up),
            rotations=tuple(self._rotations),
            restores=tuple(self._restores),
            findings=tuple(self._findings),
            notes=tuple(self._notes),
            last=self._last,
            key=self._active,
        )

    def _wrong(self, line: Line, statement: Statement) -> str | None:
        """Why this line can't be believed; None when it can."""
        if statement.log != self._log:
            return f"it is of log {statement.log}, not {self._log}"
        if self._active not in (None, statement.key):
            return f"it is signed by key {statement.key}, and heads are key {self._active}'s now"
        if statement.key not in self._keys:
            return f"key {statement.key} is not among the public keys"
        if not signed_by(line, statement.key, self._keys):
            return f"the signature of key {statement.key} is not valid"
        if statement.at_us < self._last_us:
            return "its time is before that of the line before it"
        return None

    def _head(self, number: int, head: Head) -> None:
        here, tip = self._checkpoint(number, head), self._tip
        if tip is not None and head.size < tip.size:
            self._findings.append(
                f"heads line {number}: the log went back from {tip.size} to {head.size} entries"
                f" without a restore statement: {span(head.size, tip.size)} are given up"
            )
        if tip is not None and head.size == tip.size and here.root != tip.root:
            self._findings.append(
                f"heads line {number}: another root for {head.size} entries than line"
                f" {tip.line} has"
            )
        self._standing[here.size] = self._tip = here
        self._last = head

    def _rotation(self, number: int, line: Line, rotation: Rotation) -> None:
        public = self._keys.get(rotation.new, rotation.public)
        try:
            named = key_id(bytes.fromhex(rotation.public)) == rotation.new
        except ValueError:
            named = False
        if not named or public != rotation.public:
            self._findings.append(f"heads line {number}: key {rotation.new} is another key")
        elif not signed_by(line, rotation.new, {rotation.new: public}):
            self._findings.append(
                f"heads line {number}: the new key {rotation.new} has not signed the rotation"
            )
        else:
            self._keys[rotation.new] = public
            self._active = rotation.new
            self._rotations.append(rotation)

    def _restore(self, number: int, line: Line, restore: Restore) -> None:
        tip, good = self._tip, self._standing.get(restore.size)
        if tip is None or (restore.last_size, restore.last_root) != (tip.size, tip.root.hex()):
            self._findings.append(
                f"heads line {number}: the restore gives up heads up to {restore.last_size}"
                f" entries; published is {'none' if tip is None else tip.size}"
            )
        if restore.size and (good is None or good.root.hex() != restore.root):
            self._findings.append(
                f"heads line {number}: the restore goes on from a head of {restore.size} entries"
                " that was never published"
            )
        given_up = [size for size in self._standing if size > restore.size]
        self._given_up += [self._standing.pop(size) for size in sorted(given_up)]
        self._tip = self._standing[restore.size] = self._checkpoint(number, restore)
        self._restores.append((restore, line.body))
        self._last = restore

    def _checkpoint(self, number: int, made: Head | Restore) -> Checkpoint:
        try:
            root = bytes.fromhex(made.root)
        except ValueError:
            root = b""
        return Checkpoint(size=made.size, root=root, at_us=made.at_us, line=number)


def span(first: int, end: int) -> str:
    """Entries from ``first`` up to, not including, ``end``, in words."""
    return f"entry {first}" if end - first == 1 else f"entries {first}–{end - 1}"


def encode_keys(keys: PublicKeys) -> bytes:
    """The public keys' file."""
    return msgspec.json.format(msgspec.json.encode(keys), indent=2) + b"\n"


def decode_keys(raw: bytes) -> PublicKeys:
    """Read such a file. Raises ``Rejected``."""
    try:
        found = msgspec.json.decode(raw, type=PublicKeys)
        named = all(key_id(bytes.fromhex(key.public)) == key.id for key in found.keys)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise Rejected(f"not a file of public keys: {error}", field="public_keys") from error
    if not found.keys or not named:
        raise Rejected("a file of public keys names each by its own hash", field="public_keys")
    return found

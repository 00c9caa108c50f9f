"""What rounds have been lived through: a line of JSON each, so that a campaign can go on.

A round counts only for the code it ran on: each line carries a digest of the sources of the product
and of its campaign, and lines of other code are left where they are and not counted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from msgspec import Struct

from benchmarks.pipeline import ROOT


class Lived(Protocol):
    """The outcome of a round."""

    @property
    def plan(self) -> Hashable:
        """What it was to be; equal plans are the same round."""


Round = TypeVar("Round", bound=Lived)


class Line(Struct, Generic[Round], frozen=True, kw_only=True):
    """One round of some code, with the number of kills that its plan was made for."""

    code: str
    kills: int
    outcome: Round


class Progress(Generic[Round]):
    """The file. A line that was cut off by an interruption is dropped."""

    def __init__(self, path: Path, code: str, outcome: type[Round]) -> None:
        self._path = path
        self._code = code
        self._outcome = outcome

    def done(self) -> dict[tuple[Any, int], Round]:
        """Every round of this code, by its plan and the kills that it was made for."""
        if not self._path.exists():
            return {}
        found = {}
        kind: Any = Line[self._outcome]  # type: ignore[name-defined]
        for text in self._path.read_bytes().splitlines():
            try:
                line = msgspec.json.decode(text, type=kind)
            except msgspec.MsgspecError:
                continue
            if line.code == self._code:
                found[line.outcome.plan, line.kills] = line.outcome
        return found

    def add(self, outcome: Round, kills: int) -> None:
        """One more."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            line = Line(code=self._code, kills=kills, outcome=outcome)
            file.write(msgspec.json.encode(line) + b"\n")


def code_digest(sources: Iterable[str]) -> str:
    """Changes with any source file that a round runs. ``sources``: below the tree's root."""
    digest = hashlib.sha256()
    for name in sources:
        place = ROOT / name
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]

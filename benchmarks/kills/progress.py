"""What rounds have been lived through: a line of JSON each, so that a campaign can go on.

A round counts only for the code it ran on: each line carries a digest of the sources of the product
and of this campaign, and lines of other code are left where they are and not counted.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from benchmarks.kills.plan import Plan
from benchmarks.kills.world import Outcome
from benchmarks.pipeline import ROOT

SOURCES: Final = ("signals", "controller", "benchmarks/kills", "benchmarks/pipeline.py")


class Line(Struct, frozen=True, kw_only=True):
    """One round of some code, with the number of kills that its plan was made for."""

    code: str
    kills: int
    outcome: Outcome


class Progress:
    """The file. A line that was cut off by an interruption is dropped."""

    def __init__(self, path: Path, code: str) -> None:
        self._path = path
        self._code = code

    def done(self) -> dict[tuple[Plan, int], Outcome]:
        """Every round of this code."""
        if not self._path.exists():
            return {}
        found = {}
        for text in self._path.read_bytes().splitlines():
            try:
                line = msgspec.json.decode(text, type=Line)
            except msgspec.MsgspecError:
                continue
            if line.code == self._code:
                found[line.outcome.plan, line.kills] = line.outcome
        return found

    def add(self, outcome: Outcome, kills: int) -> None:
        """One more."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            line = Line(code=self._code, kills=kills, outcome=outcome)
            file.write(msgspec.json.encode(line) + b"\n")


def code_digest() -> str:
    """Changes with any source file that a round runs."""
    digest = hashlib.sha256()
    for name in SOURCES:
        place = ROOT / name
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def summary(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The last line: what was done, and what was found."""
    kinds: Counter[str] = Counter()
    for outcome in outcomes:
        kinds.update({f"{outcome.plan.bus} {kind}": n for kind, n in outcome.kinds.items()})
    return {
        "kills": sum(outcome.kills for outcome in outcomes),
        "blows": dict(sorted(kinds.items())),
        "connections_cut": sum(outcome.cuts for outcome in outcomes),
        "rounds": len(outcomes),
        "acknowledged": sum(outcome.acknowledged for outcome in outcomes),
        "unknown": sum(outcome.unknown for outcome in outcomes),
        "lost": sum(outcome.lost for outcome in outcomes),
        "counted_twice": sum(outcome.twice for outcome in outcomes),
        "ended_by_themselves": sum(outcome.ended for outcome in outcomes),
        "rounds_with_faults": [o.plan.seed for o in outcomes if o.faults],
        "wall_s": round(sum(outcome.wall_s for outcome in outcomes), 1),
    }

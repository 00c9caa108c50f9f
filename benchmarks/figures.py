"""What a benchmark says: lines for people as it goes, and the keys of the last line."""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np


@dataclass
class Figures:
    """Figures as they come in. ``more``: what explains them, for the last line's ``context``.

    ``aims``: every key of the last line with what is aimed at, in words.
    """

    aims: Mapping[str, str]
    keys: dict[str, float] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)

    def key(self, name: str, value: float) -> None:
        """One of ``aims``."""
        if name not in self.aims:
            raise KeyError(name)
        self.keys[name] = round(value, 3 if abs(value) < 100 else 0)

    def table(self) -> str:
        """Every figure beside its aim."""
        lines = [f"{'':<20}{'measured':>12}   aim"]
        for name in self.aims:
            value = self.keys.get(name)
            told = (
                "not run" if value is None else f"{value:,.3g}" if value < 100 else f"{value:,.0f}"
            )
            lines.append(f"{name:<20}{told:>12}   {self.aims[name]}")
        return "\n".join(lines)

    def document(self) -> dict[str, Any]:
        """The last line: the keys (None: not run) and the context."""
        return {**{name: self.keys.get(name) for name in self.aims}, "context": self.more}


def say(text: str) -> None:
    """A line for people, at once."""
    print(text, flush=True)


def median(values: Sequence[float]) -> float:
    """The median."""
    return float(np.median(values))


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which ``share`` percent are."""
    return float(np.percentile(values, share))


def spread(values: Sequence[float]) -> str:
    """Every repeat, so that nobody has to trust a median."""
    return ", ".join(f"{value:,.0f}" for value in values)


def surroundings(seed: int, quick: bool, packages: Sequence[str]) -> dict[str, Any]:
    """Hardware, versions and what else the machine was doing."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "sqlite_version": sqlite3.sqlite_version,
        **{name: version(name) for name in packages},
        "load_average": [round(value, 2) for value in os.getloadavg()],
        "seed": seed,
        "quick": quick,
    }


def processor() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()

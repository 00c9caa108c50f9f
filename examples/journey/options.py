"""What the journey may be told on its command line, and what follows from it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Plant = Literal["lowest-cap", "none"]

DEFAULT_SEED = 1
DEFAULT_TPOT_MS = 50
DEFAULT_ALPHA = 0.05


@dataclass(frozen=True, kw_only=True)
class Options:
    """One run of the journey."""

    exit: bool
    short: bool
    plant: Plant
    traffic: bool
    tpot_ms: int
    seed: int
    alpha: float
    state_dir: Path | None
    json: bool

    @property
    def law_only(self) -> bool:
        """A short run that asks for another TPOT limit ends when the law is proposed."""
        return self.short and self.tpot_ms != DEFAULT_TPOT_MS

    @property
    def bad_change(self) -> bool:
        """Whether a second operator proposes the bad change; short runs with another seed are
        about the coins alone."""
        return self.plant != "none" and not (self.short and self.seed != DEFAULT_SEED)


def parse(words: Sequence[str] | None = None) -> Options:
    """The options; exits with a message for wrong ones."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.journey", description="The whole loop on SAMPLE traffic."
    )
    parser.add_argument("--exit", action="store_true", help="check the story and leave")
    parser.add_argument("--short", action="store_true", help="shorter phases and blocks")
    parser.add_argument(
        "--plant",
        choices=("lowest-cap", "none"),
        default="lowest-cap",
        help="the bad change that a second operator proposes",
    )
    parser.add_argument("--no-traffic", action="store_true", help="nobody sends anything")
    parser.add_argument("--tpot-ms", type=int, default=DEFAULT_TPOT_MS, help="live's TPOT limit")
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED, help="of coins and traffic")
    parser.add_argument("--alpha", type=float, default=DEFAULT_ALPHA, help="of the trials")
    parser.add_argument("--state-dir", type=Path, default=None, help="unset = a new one")
    parser.add_argument("--json", action="store_true", help="end with a summary in JSON")
    given = parser.parse_args(words)
    return Options(
        exit=given.exit,
        short=given.short,
        plant=given.plant,
        traffic=not given.no_traffic,
        tpot_ms=given.tpot_ms,
        seed=given.seed,
        alpha=given.alpha,
        state_dir=given.state_dir,
        json=given.json,
    )

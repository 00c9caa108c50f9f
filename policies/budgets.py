"""How many trials a scope may still begin, so that few changes are kept by chance alone. Pure.

Each trial may keep a change that does nothing, with probability α at most. ``per_day`` bounds how
often that chance is taken: N trials within 24 h, so that N × α false keeps a day are expected at
most; a change that was kept gives its place back no more than one that was not, for the false keep
is among the kept. ``fdr`` bounds the share of false keeps among what is kept instead: each trial
has a level of its own, which falls while nothing is kept and rises with what is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct

from policies.limits import HOUR_US, MICROS

DAY_US: Final = 24 * HOUR_US

BudgetKind = Literal["per_day", "fdr"]


class ScopeTrials(Struct, frozen=True, kw_only=True):
    """What a scope has spent. ``began_us``: of its trials of the last 24 h, whoever's, by time.

    ``level``: what the next trial's α may be under ``fdr``; ``renews_us``: when the stream that it
    is the level of is over, and another begins.
    """

    began_us: tuple[int, ...] = ()
    level: float = 1.0
    renews_us: int = 0


class TrialBudget(Struct, frozen=True, kw_only=True):
    """What is allowed, and what each scope has spent; a scope that is not named has spent nothing.

    ``fresh_level``: what the first trial of a stream has. ``least_level``: a trial at less α than
    this is not begun, for it would take too long.
    """

    kind: BudgetKind = "per_day"
    per_day: int = 4
    fresh_level: float = 1.0
    least_level: float = 1e-4
    scopes: Mapping[str, ScopeTrials] = {}

    def begun(self, scope: str, now_us: int) -> int:
        """Trials of a scope that began within the last 24 h."""
        spent = self.scopes.get(scope, ScopeTrials())
        return sum(at_us > now_us - DAY_US for at_us in spent.began_us)

    def level(self, scope: str) -> float:
        """What the α of the next trial of a scope may be under ``fdr``."""
        spent = self.scopes.get(scope)
        return self.fresh_level if spent is None else spent.level

    def next_us(self, scope: str, now_us: int) -> int | None:
        """When the next trial may begin, if not now.

        >>> spent = TrialBudget(per_day=1, scopes={"target": ScopeTrials(began_us=(5_000_000,))})
        >>> spent.next_us("target", 6_000_000), spent.next_us("live", 6_000_000)
        (86405000000, None)
        """
        spent = self.scopes.get(scope, ScopeTrials())
        if self.kind == "fdr":
            short = spent.level < self.least_level and spent.renews_us > now_us
            return spent.renews_us if short else None
        recent = sorted(at_us for at_us in spent.began_us if at_us > now_us - DAY_US)
        return recent[-self.per_day] + DAY_US if len(recent) >= self.per_day else None

    def answer(self, scope: str, now_us: int) -> tuple[str, dict[str, float]]:
        """Words where it stands in the way, "" where not; its figures in both cases."""
        next_us = self.next_us(scope, now_us)
        left_s = 0.0 if next_us is None else (next_us - now_us) / MICROS
        if self.kind == "fdr":
            level = self.level(scope)
            figures = {"level": level, "least": self.least_level, "left_s": left_s}
            words = (
                f"the next trial of scope {scope} would have α {level:.2g}, below"
                f" {self.least_level:.2g}; next in {left_s:.0f} s"
            )
        else:
            begun = self.begun(scope, now_us)
            figures = {"begun": float(begun), "allowed": float(self.per_day), "left_s": left_s}
            words = (
                f"{begun} trials of scope {scope} began within 24 h; allowed {self.per_day};"
                f" next in {left_s:.0f} s"
            )
        return ("" if next_us is None else words), figures

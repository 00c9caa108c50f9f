"""What a campaign of races found in all, and which sources its rounds run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from benchmarks.races.world import Outcome

SOURCES: Final = (
    "signals",
    "policies",
    "engine/settings_book.py",
    "controller",
    "migrations",
    "benchmarks/races",
    "benchmarks/pipeline.py",
)


def summary(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The last line: what was done, and what was found."""
    kills: Counter[str] = Counter()
    acts: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    for outcome in outcomes:
        kills[outcome.plan.database] += outcome.kills
        acts.update(outcome.acts)
        kinds.update(outcome.kinds)
        ends.update(outcome.ends)
    return {
        "kills": sum(kills.values()),
        **{f"kills_{database}": n for database, n in sorted(kills.items())},
        "rounds": len(outcomes),
        "acts": dict(sorted(acts.items())),
        "accepted": dict(sorted(kinds.items())),
        "policies": sum(outcome.policies for outcome in outcomes),
        "ends": dict(sorted(ends.items())),
        "audit_entries": sum(outcome.entries for outcome in outcomes),
        "slowest_ready_s": max((outcome.slowest_ready_s for outcome in outcomes), default=0.0),
        "rounds_with_faults": [outcome.plan.seed for outcome in outcomes if outcome.faults],
        "wall_s": round(sum(outcome.wall_s for outcome in outcomes), 1),
    }

"""What a kill campaign found in all, and which sources its rounds run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from benchmarks.kills.world import Outcome

SOURCES: Final = ("signals", "controller", "benchmarks/kills", "benchmarks/pipeline.py")


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

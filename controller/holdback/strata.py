"""Strata whose blocks are all known: told to the audit, whole, so that anybody can count again."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import structs

from controller.holdback.drawing import HeldBlock, Holdback
from controller.judge.values import unit_differences
from controller.state import Draft


def tell_strata(draft: Draft, found: Holdback) -> Holdback:
    """Record each stratum of which nothing more comes, and let go of it."""
    m = found.plan.per_stratum
    left = found.blocks
    while left:
        stratum = left[0].block.index // m
        mine = [one for one in left if one.block.index // m == stratum]
        if len(mine) < m or not all(one.settled for one in mine):
            break
        draft.note(
            "holdback.stratum",
            found.plan.id,
            stratum=stratum,
            d=difference(mine),
            blocks=[_told(one) for one in mine],
        )
        left = left[len(mine) :]
    return found if left is found.blocks else structs.replace(found, blocks=left)


def difference(blocks: Sequence[HeldBlock]) -> dict[str, float]:
    """As usual − baseline, by metric: the mean over the blocks as usual that have a difference.

    Empty without the baseline's block or without any other.
    """
    shown = [(one.block.arm, one.values) for one in blocks if one.values is not None]
    held = [values for arm, values in shown if arm == "baseline"]
    if not held:
        return {}
    each = [unit_differences(held[0], values) for arm, values in shown if arm == "candidate"]
    names = sorted({name for d in each for name in d})
    return {name: _mean([d[name] for d in each if name in d]) for name in names}


def _mean(found: Sequence[float]) -> float:
    return math.fsum(found) / len(found)


def _told(one: HeldBlock) -> dict[str, object]:
    block = one.block
    return {
        "index": block.index,
        "arm": block.arm,
        "began_us": block.began_us,
        "ended_us": block.ended_us,
        "lifted": one.lifted,
        "void": block.void,
        "values": one.values,
    }

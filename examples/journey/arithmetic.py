"""The trial's arithmetic once more, written from the protocol's text and not from the product.

If the product's judge and this page disagree, one of them is wrong; that is the point. It takes
what an auditor has: the frozen plan of the audit export and the exported rows, as plain JSON.

::

    block:  began │ washout w │ counted arrivals … │ H │ end
    E    =  mean over g of Π 2/(1 + e^(−2·g·d/s))
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
Values = dict[str, float]

EFFECT_GRID = (4.0, 8.0, 16.0, 32.0)
GUARD_GRID = (1 / 8, 1 / 2, 2.0, 8.0)
UNFINISHED_S = 60.0
SHORTEST_S = 1e-4
UNSEEN = 0.01
"""The chance that a loss as rare as the plan names has not shown yet, at most."""


def coin(seed: int, unit: int) -> list[str]:
    """The order of a unit's arms: heads (the hash's first byte is odd) = candidate first."""
    heads = hashlib.sha256(f"{seed}:{unit}".encode()).digest()[0] % 2 == 1
    order = ["baseline", "candidate"]
    return order[::-1] if heads else order


def block_values(
    plan: Row, began_us: int, requests: Iterable[Row], seconds: Iterable[Row], *, times: int = 1
) -> tuple[Values, int]:
    """A block's values by metric, and how many arrivals were counted.

    ``requests`` and ``seconds``: the rows of this block. ``times`` 2: block and washout doubled.
    """
    rows, ticks = list(requests), list(seconds)
    washed_us = began_us + round(times * number(plan["washout_s"]) * 1e6)
    end_us = began_us + round(times * number(plan["block_s"]) * 1e6)
    values: Values = {}
    counted = 0
    for intent in plan["intents"]:
        name, last_us = intent["name"], end_us - round(number(intent["deadline_s"]) * 1e6)
        mine = [
            row
            for row in rows
            if row["intent"] == name and washed_us < row["arrival_us"] <= last_us
        ]
        counted += len(mine)
        if mine:
            values[f"attainment:{name}"] = sum(_good(row, end_us) for row in mine) / len(mine)
            logs = [-math.log(_ttft_s(row, end_us)) for row in mine]
            values[f"neg_log_ttft:{name}"] = math.fsum(logs) / len(mine)
        rate = _tokens_per_s(
            [tick for tick in ticks if washed_us < tick["to_us"] <= end_us],
            name,
            only_with_backlog=name == plan["maximize"],
        )
        if rate is not None:
            values[f"tokens_per_s:{name}"] = rate
    return values, counted


def utility_parts(plan: Row, values: Values) -> Values:
    """½ for the maximised rate over its reference, ½ spread over the intents' attainments."""
    parts: Values = {}
    rate = values.get(f"tokens_per_s:{plan['maximize']}")
    reference = number(plan["reference_tokens_per_s"])
    if rate is not None and reference > 0:
        parts["rate"] = 0.5 * min(1.0, rate / reference)
    for intent in plan["intents"]:
        reached = values.get(f"attainment:{intent['name']}")
        if reached is not None:
            share = min(1.0, reached / number(intent["target_attainment"]))
            parts[intent["name"]] = 0.5 / len(plan["intents"]) * share
    return parts


def differences(plan: Row, baseline: Values, candidate: Values) -> Values:
    """d = candidate − baseline of what both blocks have; U's is the sum of its shared parts'."""
    d = {name: candidate[name] - baseline[name] for name in baseline if name in candidate}
    before, after = utility_parts(plan, baseline), utility_parts(plan, candidate)
    shared = [after[part] - before[part] for part in before if part in after]
    if shared:
        d["U"] = math.fsum(shared)
    return d


def e_value(ds: Sequence[float], scale: float, grid: Sequence[float] = EFFECT_GRID) -> float:
    """The sign e-process in favour of d > 0."""
    return sum(math.prod(_bet(g * d / scale) for d in ds) for g in grid) / len(grid)


def e_values(plan: Row, units: Sequence[Values]) -> Values:
    """Every test of the plan by its name, over the counted units' differences."""
    primary, scale = plan["primary"], number(plan["scale"])
    ds = [d[primary] for d in units if primary in d]
    found = {
        f"{primary}>0": e_value(ds, scale),
        f"{primary}<0": e_value([-d for d in ds], scale),
    }
    for guard in plan["guards"]:
        metric, margin = guard["metric"], number(guard["margin"])
        ds = [d[metric] for d in units if metric in d]
        found[f"{metric}>-{margin:g}"] = e_value([d + margin for d in ds], margin, GUARD_GRID)
        found[f"{metric}<0"] = e_value([-d for d in ds], number(guard["scale"]))
    return found


def ruling(plan: Row, units: Sequence[Values], *, closed: int, trips: int) -> str | None:
    """The verdict after these counted units, ``closed`` ones in all; None: go on."""
    e = e_values(plan, units)
    alpha, guards, primary = number(plan["alpha"]), plan["guards"], plan["primary"]
    enough = len(units) >= plan["min_units"]
    watched = [primary, *(guard["metric"] for guard in guards)]
    harm_alpha = number(plan.get("harm_alpha") or alpha)
    if enough and any(e[f"{metric}<0"] >= (len(guards) + 1) / harm_alpha for metric in watched):
        return "HARMED"
    if trips >= plan["max_trips"]:
        return "INCONCLUSIVE"
    improved = e[f"{primary}>0"] >= 1 / alpha and _cautious_mean(units, primary, 0.0) > 0
    improved = improved and all(_passes(plan, guard, e, units) for guard in guards)
    if enough and improved and _rare_losses_excluded(plan, units):
        return "IMPROVED"
    if not units and closed >= plan["min_units"]:
        return "NO_DATA"
    return "INCONCLUSIVE" if closed >= plan["max_units"] else None


def number(written: str | float) -> float:
    """A figure of the audit, where floats are decimal strings."""
    return float(written)


def _passes(plan: Row, guard: Row, e: Values, units: Sequence[Values]) -> bool:
    metric, margin = guard["metric"], number(guard["margin"])
    enough = e[f"{metric}>-{margin:g}"] >= 1 / number(plan["guard_alpha"])
    return enough and _cautious_mean(units, metric, margin) > 0


def _rare_losses_excluded(plan: Row, units: Sequence[Values]) -> bool:
    """Where the plan asks: units enough, and in no metric more large losses than large gains."""
    if plan.get("rarest_loss") is None:
        return True
    scales = {plan["primary"]: plan["scale"]} | {g["metric"]: g["scale"] for g in plan["guards"]}
    for metric, scale in scales.items():
        ds, large = [d[metric] for d in units if metric in d], number(scale) / 2
        if sum(d <= -large for d in ds) > sum(d >= large for d in ds):
            return False
    return (1 - number(plan["rarest_loss"])) ** len(units) <= UNSEEN


def _cautious_mean(units: Sequence[Values], metric: str, shift: float) -> float:
    """Mean of d + shift with the worst tenth of the units, rounded up, counted twice."""
    ds = sorted(d[metric] + shift for d in units if metric in d)
    worst = ds[: math.ceil(len(ds) / 10)]
    return math.fsum([*ds, *worst]) / (len(ds) + len(worst)) if ds else 0.0


def _bet(x: float) -> float:
    """exp(x)/cosh(x), which is between 0 and 2."""
    return 2.0 / (1.0 + math.exp(-2.0 * x)) if x > -300.0 else 0.0


def _done(row: Row, end_us: int) -> bool:
    return row["finished_us"] is not None and row["finished_us"] <= end_us


def _good(row: Row, end_us: int) -> bool:
    return row["good"] is True and _done(row, end_us)


def _ttft_s(row: Row, end_us: int) -> float:
    if row["ttft_us"] is None or not _done(row, end_us):
        return UNFINISHED_S
    ttft_s: float = row["ttft_us"] / 1e6
    return min(UNFINISHED_S, max(SHORTEST_S, ttft_s))


def _tokens_per_s(ticks: Sequence[Row], intent: str, *, only_with_backlog: bool) -> float | None:
    if only_with_backlog:
        ticks = [tick for tick in ticks if tick["waiting"].get(intent, 0) > 0]
    lasted_us: int = sum(tick["to_us"] - tick["from_us"] for tick in ticks)
    if lasted_us <= 0:
        return None
    tokens: int = sum(tick["output_tokens"].get(intent, 0) for tick in ticks)
    return tokens * 1_000_000 / lasted_us

"""Figures of windows, as people read them: shares, quantiles, rates, per window or merged. Pure.

A figure without evidence is None: unknown, not zero. Rates per second are per reported second,
replicas added up; readings are each replica's latest, added up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeVar

from msgspec import Struct

from controller.rating import Terms
from signals.definitions import Definition, absent_counts
from signals.events import MICROS
from signals.features import sketch
from signals.features.model import Moments, WindowCounts, WindowRevision
from signals.features.rates import Rate, rates
from signals.features.windows import merge

By = Literal["window", "intent", "target"]
K = TypeVar("K")
QUANTILES = (("p50", 0.50), ("p95", 0.95), ("p99", 0.99))


class Group(Struct, frozen=True, kw_only=True):
    """Windows of one moment that are shown as one. What is None differs between them."""

    start_us: int
    windows: tuple[WindowRevision, ...]
    intent: str | None = None
    replica: str | None = None
    digest: str | None = None
    trial: str | None = None
    block: int | None = None


def grouped(windows: Iterable[WindowRevision], by: By) -> list[Group]:
    """The windows of one width, by time: each alone, or merged over replicas and settings."""
    found: defaultdict[tuple[int, str], list[WindowRevision]] = defaultdict(list)
    if by == "window":
        return [_alone(window) for window in windows]
    for window in windows:
        key = window.key
        found[key.start_us, key.intent if by == "intent" else ""].append(window)
    return [
        Group(start_us=start_us, windows=tuple(gathered), intent=intent or None)
        for (start_us, intent), gathered in sorted(found.items())
    ]


def _alone(window: WindowRevision) -> Group:
    key = window.key
    return Group(
        start_us=key.start_us,
        windows=(window,),
        intent=key.intent,
        replica=key.replica,
        digest=key.digest,
        trial=key.trial or None,
        block=key.block if key.trial else None,
    )


def counted(group: Group) -> WindowCounts:
    """The counts of a group."""
    first = group.windows[0].counts
    return first if len(group.windows) == 1 else merge(each.counts for each in group.windows)


def figures(group: Group) -> dict[str, float | None]:
    """What the counts say."""
    counts = counted(group)
    answered = counts.completed + counts.errors
    found: dict[str, float | None] = {
        "attainment": _share(counts.good, counts.judged),
        "error_rate": _share(counts.errors, answered),
        "goodput_per_s": _per_s(group.windows, lambda one: one.good),
        "arrivals_per_s": _per_s(group.windows, lambda one: one.arrivals),
        "tokens_per_s": _per_s(group.windows, lambda one: one.output_tokens),
    }
    for name in ("ttft", "tpot", "e2e"):
        found |= _quantiles(name, getattr(counts, name))
    return found | _readings(group.windows)


def metrics(
    group: Group, terms: Terms, *, watermark_us: int, width_s: int
) -> dict[str, dict[str, Any]]:
    """Per metric: the rate of requests whose attribution has closed; how many are open beside.

    Metrics whose absent values count as zero are there whenever requests arrived; the others where
    somebody gave a value.
    """
    definitions = terms.definitions
    arrivals = sum(window.counts.requests for window in group.windows)
    named = {name for window in group.windows for name in window.counts.outcomes}
    named |= {name for name, one in definitions.items() if arrivals and absent_counts(one.metric)}
    wanted = {name: definitions[name] for name in sorted(named & definitions.keys())}
    found = rates(group.windows, wanted, watermark_us=watermark_us, span_s=width_s, caps=terms.caps)
    return {
        name: {"values": _values(group, name)} | _metric(one, found.get(name), arrivals)
        for name, one in wanted.items()
    }


def _values(group: Group, metric: str) -> int:
    """How many values were given, by whomever, also for requests that are open still."""
    return sum(
        count
        for window in group.windows
        for count, _ in window.counts.outcomes.get(metric, {}).values()
    )


def _metric(definition: Definition, rate: Rate | None, arrivals: int) -> dict[str, Any]:
    closed = 0 if rate is None else rate.closed_requests
    return {
        "rate": None if rate is None else rate.value,
        "unit": definition.metric.unit,
        "attribution_s": definition.metric.attribution_s,
        "closed_requests": closed,
        "open_requests": arrivals - closed,
        "producers": {} if rate is None else rate.by_producer,
    }


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole > 0 else None


def _quantiles(name: str, moments: Moments) -> dict[str, float | None]:
    bins = sketch.decode(moments.sketch)
    found: dict[str, float | None] = {}
    for label, q in QUANTILES:
        value_us = sketch.quantile(bins, q)
        found[f"{name}_ms_{label}"] = None if value_us is None else value_us / 1000
    return found


def _per_s(windows: Sequence[WindowRevision], count: Callable[[WindowCounts], int]) -> float | None:
    """Per second that a replica reported. Its intents report the same seconds, so once each."""
    totals: defaultdict[str, int] = defaultdict(int)
    covered_us: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    for window in windows:
        replica = window.key.replica
        totals[replica] += count(window.counts)
        covered_us[replica][window.key.intent] += window.counts.covered_us
    spans = {replica: max(of_intent.values()) for replica, of_intent in covered_us.items()}
    if not any(spans.values()):
        return None
    return sum(
        totals[replica] * MICROS / span_us for replica, span_us in spans.items() if span_us > 0
    )


def _readings(windows: Sequence[WindowRevision]) -> dict[str, float | None]:
    """Of each replica and intent the latest; blocks and prefixes are the replica's own."""
    latest: dict[tuple[str, str], WindowCounts] = {}
    replicas: dict[str, WindowCounts] = {}
    prefixes: defaultdict[str, defaultdict[str, list[int]]]
    prefixes = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    for window in windows:
        counts, replica, intent = window.counts, window.key.replica, window.key.intent
        prefixes[replica][intent][0] += counts.prefix_lookups
        prefixes[replica][intent][1] += counts.prefix_hits
        if counts.gauge_us:
            _keep_later(latest, (replica, intent), counts)
            _keep_later(replicas, replica, counts)
    pairs = [max(of_intent.values()) for of_intent in prefixes.values()]
    return {
        "waiting": float(sum(one.waiting for one in latest.values())) if latest else None,
        "running": float(sum(one.running for one in latest.values())) if latest else None,
        "kv_usage": _share(
            sum(one.kv_blocks_used for one in replicas.values()),
            sum(one.kv_blocks_total for one in replicas.values()),
        ),
        "kv_hit_ratio": _share(sum(hits for _, hits in pairs), sum(looked for looked, _ in pairs)),
    }


def _keep_later(kept: dict[K, WindowCounts], key: K, counts: WindowCounts) -> None:
    before = kept.get(key)
    if before is None or before.gauge_us < counts.gauge_us:
        kept[key] = counts

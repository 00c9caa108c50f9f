"""The features that rules see, by the names of the rule language. Pure.

``<intent>.<feature>`` and ``target.<feature>``, all floats. A name without evidence in the span is
absent: the rule engine calls that UNKNOWN, which is neither true nor zero.

==============================  ==================================================================
attainment                      good / judged
error_rate                      errors / (errors + completed)
{ttft,tpot,e2e}_ms_{p50,..}     quantiles, within 1 %
arrivals_per_s,                 per reported second, replicas added up
offered_tokens_per_s,
tokens_per_s
waiting, running                the latest reading of each replica, added up
kv_usage                        used / total blocks, 0 to 1
goodput_per_s,                  good requests, and their output tokens, per reported second
goodput_tokens_per_s
kv_hit_ratio                    prompt tokens found in the prefix cache / looked up
``<metric>_rate``               of requests whose attribution has closed, see ``rates``
==============================  ==================================================================
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from signals.events import MICROS
from signals.features import sketch
from signals.features.model import Moments, SecondRow, WindowCounts, WindowRevision
from signals.features.rates import Rate
from signals.features.windows import end_us, merge

TARGET = "target"
QUANTILES = (("p50", 0.50), ("p95", 0.95), ("p99", 0.99))


def feature_values(
    windows: Sequence[WindowRevision],
    seconds: Sequence[SecondRow],
    *,
    now_us: int,
    span_s: int = 10,
    intents: Iterable[str],
    rates: Mapping[str, Mapping[str, Rate]] | None = None,
) -> dict[str, float]:
    """What is known about one target's last ``span_s`` seconds before ``now_us``.

    ``windows`` are its 5 s windows, open ones included; each counts as a whole if any part of it
    lies in the span. ``seconds`` count by their end. ``rates``: scope -> metric -> rate.
    """
    since_us = now_us - span_s * MICROS
    recent = [
        window for window in windows if since_us < end_us(window.key) and _begun(window, now_us)
    ]
    ticks = [second for second in seconds if since_us < second.to_us <= now_us]
    declared = tuple(intents)
    found: dict[str, float] = {}
    for scope in (TARGET, *declared):
        mine = [window for window in recent if scope in (TARGET, window.key.intent)]
        names = None if scope == TARGET else (scope,)
        values = (
            _judged(merge(window.counts for window in mine))
            | _goodput(mine)
            | _prefix(mine)
            | _gauges(mine, since_us=since_us)
            | _per_s(ticks, names)
            | _rates((rates or {}).get(scope, {}))
        )
        found |= {f"{scope}.{name}": value for name, value in values.items()}
    return found


def _begun(window: WindowRevision, now_us: int) -> bool:
    return window.key.start_us <= now_us


def _judged(counts: WindowCounts) -> dict[str, float]:
    """What requests and users said."""
    found: dict[str, float] = {}
    if counts.judged > 0:
        found["attainment"] = counts.good / counts.judged
    answered = counts.completed + counts.errors
    if answered > 0:
        found["error_rate"] = counts.errors / answered
    for name in ("ttft", "tpot", "e2e"):
        found |= _quantiles(name, getattr(counts, name))
    return found


def _rates(rates: Mapping[str, Rate]) -> dict[str, float]:
    """What users said; an unknown rate is absent."""
    known = ((metric, rate.value) for metric, rate in rates.items())
    return {f"{metric}_rate": value for metric, value in known if value is not None}


def _goodput(windows: Sequence[WindowRevision]) -> dict[str, float]:
    """Good requests per second that the replica reported, replicas added up.

    A request is good in the window it ended in, under the settings it arrived under; the time is
    that of the replica, whatever its settings, which each of its intents has been given in full.
    """
    covered: defaultdict[str, Counter[str]] = defaultdict(Counter)
    good: Counter[str] = Counter()
    tokens: Counter[str] = Counter()
    for window in windows:
        replica, counts = window.key.replica, window.counts
        covered[replica][window.key.intent] += counts.covered_us
        good[replica] += counts.good
        tokens[replica] += counts.good_tokens
    spans_us = {replica: max(of.values()) for replica, of in covered.items()}
    known = [replica for replica, span_us in spans_us.items() if span_us > 0]
    if not known:
        return {}
    return {
        "goodput_per_s": sum(good[each] * MICROS / spans_us[each] for each in known),
        "goodput_tokens_per_s": sum(tokens[each] * MICROS / spans_us[each] for each in known),
    }


def _prefix(windows: Sequence[WindowRevision]) -> dict[str, float]:
    """The cache is the replica's, and each of its intents carries its counts: so each once."""
    once: dict[tuple[str, str, str, int, int], tuple[int, int]] = {}
    for window in windows:
        key, counts = window.key, window.counts
        place = (key.replica, key.digest, key.trial, key.block, key.start_us)
        seen = (counts.prefix_lookups, counts.prefix_hits)
        once[place] = max(seen, once.get(place, (0, 0)))
    lookups = sum(each for each, _ in once.values())
    return {"kv_hit_ratio": sum(hits for _, hits in once.values()) / lookups} if lookups else {}


def _quantiles(name: str, moments: Moments) -> dict[str, float]:
    bins = sketch.decode(moments.sketch)
    found = {}
    for label, q in QUANTILES:
        value_us = sketch.quantile(bins, q)
        if value_us is not None:
            found[f"{name}_ms_{label}"] = value_us / 1000
    return found


def _gauges(windows: Sequence[WindowRevision], *, since_us: int) -> dict[str, float]:
    """Readings: of each replica and intent the latest; blocks are the replica's, so once each."""
    latest: dict[tuple[str, str], WindowCounts] = {}
    for window in windows:
        if window.counts.gauge_us > since_us:
            place = (window.key.replica, window.key.intent)
            before = latest.get(place)
            if before is None or before.gauge_us < window.counts.gauge_us:
                latest[place] = window.counts
    if not latest:
        return {}
    found = {
        "waiting": float(sum(counts.waiting for counts in latest.values())),
        "running": float(sum(counts.running for counts in latest.values())),
    }
    replicas: dict[str, WindowCounts] = {}
    for (replica, _), counts in latest.items():
        if replica not in replicas or replicas[replica].gauge_us < counts.gauge_us:
            replicas[replica] = counts
    total = sum(counts.kv_blocks_total for counts in replicas.values())
    if total > 0:
        found["kv_usage"] = sum(counts.kv_blocks_used for counts in replicas.values()) / total
    return found


def _per_s(ticks: Sequence[SecondRow], intents: Sequence[str] | None) -> dict[str, float]:
    """Per second of each replica's reported time, added over replicas. None: every intent."""
    by_replica: defaultdict[str, list[SecondRow]] = defaultdict(list)
    for tick in ticks:
        by_replica[tick.replica].append(tick)
    found: dict[str, float] = {}
    for seconds in by_replica.values():
        covered_us = sum(second.to_us - second.from_us for second in seconds)
        if covered_us <= 0:
            continue
        for name, totals in (
            ("arrivals_per_s", [second.arrivals for second in seconds]),
            ("offered_tokens_per_s", [second.offered_tokens for second in seconds]),
            ("tokens_per_s", [second.output_tokens for second in seconds]),
        ):
            total = sum(_sum(counts, intents) for counts in totals)
            found[name] = found.get(name, 0.0) + total * MICROS / covered_us
    return found


def _sum(counts: Mapping[str, int], intents: Sequence[str] | None) -> int:
    if intents is None:
        return sum(counts.values())
    return sum(counts.get(intent, 0) for intent in intents)

"""Records of engines that count for themselves at the edge: ``counted`` and ``named``.

What an edge counted is added up with what is counted here, so it must be what counting can give:
a sketch in its one encoding, as many values in it as were counted, and moments that some values
have (Σx² between (Σx)²/n and (Σx)²).
"""

from __future__ import annotations

from typing import Final

import msgspec

from signals.counts import Moments, WindowCounts
from signals.errors import Rejected
from signals.events import MICROS, Counted, Named
from signals.features import sketch
from signals.record_bounds import MAX_COUNT, check_counts, check_names, check_request
from signals.rules import Rules, check_id, in_time

WINDOW_S: Final = 5
READINGS: Final = ("gauge_us", "waiting", "running", "kv_blocks_used", "kv_blocks_total")
MAX_REQUESTS: Final = 1000
MAX_SKETCH_BYTES: Final = 24_576
"""1,838 bins, of at most 12 bytes each, hold every duration up to ``MAX_COUNT`` µs."""


def _key(value_us: int) -> int:
    bins: sketch.Bins = {}
    sketch.add(bins, value_us)
    return next(iter(bins))


MAX_KEY: Final = _key(MAX_COUNT)


def check_counted(record: Counted, rules: Rules) -> None:
    """Raises ``Rejected``."""
    if record.start_us % (WINDOW_S * MICROS):
        raise Rejected(
            f"windows start at whole {WINDOW_S} s",
            field="data.start_us",
            value=record.start_us,
            allowed=f"multiples of {WINDOW_S * MICROS}",
        )
    in_time(record.start_us, rules, field="data.start_us")
    if record.revision < 1:
        raise Rejected("no revision", field="data.revision", value=record.revision, allowed=">= 1")
    check_id(record.source, "data.source")
    check_names(record, ("intent",), "data")
    _check_counts(record.counts)


def check_named(record: Named, rules: Rules) -> None:
    """Raises ``Rejected``."""
    requests = record.requests
    if not 1 <= len(requests) <= MAX_REQUESTS:
        raise Rejected(
            f"{len(requests)} requests in one record",
            field="data.requests",
            value=len(requests),
            allowed=f"1..{MAX_REQUESTS}",
        )
    for index, request in enumerate(requests):
        check_request(request, record.stamp.target, rules, f"data.requests[{index}]")


def _check_counts(counts: WindowCounts) -> None:
    if counts.outcomes:
        raise Rejected("users' acts are joined here, not at the edge", field="data.counts.outcomes")
    check_counts(counts, "data.counts")
    for part, whole in (("good", "judged"), ("prefix_hits", "prefix_lookups")):
        if getattr(counts, part) > getattr(counts, whole):
            raise Rejected(
                f"more {part} than {whole}",
                field=f"data.counts.{part}",
                value=getattr(counts, part),
                allowed=getattr(counts, whole),
            )
    for name in READINGS:
        if getattr(counts, name):
            raise Rejected(
                "readings come with seconds: of two revisions nobody could tell which holds",
                field=f"data.counts.{name}",
                value=getattr(counts, name),
                allowed=0,
            )
    for name in ("ttft", "tpot", "e2e"):
        _check_moments(getattr(counts, name), f"data.counts.{name}")


def _check_moments(moments: Moments, path: str) -> None:
    count, sum_us, sum_sq = moments.count, moments.sum_us, moments.sum_sq
    for name, value in (("count", count), ("sum_us", sum_us)):
        if not 0 <= value <= MAX_COUNT:
            raise Rejected("no count", field=f"{path}.{name}", value=value, allowed="0..2^53")
    least, most = -(-sum_us * sum_us // count) if count else 0, sum_us * sum_us if count else 0
    if not least <= sum_sq <= most:
        raise Rejected(
            "no values have such a sum of squares",
            field=f"{path}.sum_sq",
            value=sum_sq,
            allowed=f"{least}..{most}",
        )
    if not count and sum_us:
        raise Rejected("a sum of nothing", field=f"{path}.sum_us", value=sum_us, allowed=0)
    _check_sketch(moments, f"{path}.sketch")


def _check_sketch(moments: Moments, field: str) -> None:
    if len(moments.sketch) > MAX_SKETCH_BYTES:
        raise Rejected(
            "the sketch is too large",
            field=field,
            value=len(moments.sketch),
            allowed=f"{MAX_SKETCH_BYTES} bytes at most",
        )
    try:
        bins = sketch.decode(moments.sketch)
    except (msgspec.MsgspecError, ValueError) as error:
        raise Rejected(f"not a sketch: {error}", field=field) from error
    if any(count < 1 or not 0 <= key <= MAX_KEY for key, count in bins.items()):
        allowed = f"keys 0..{MAX_KEY}, counts of 1 and more"
        raise Rejected("no such bins", field=field, allowed=allowed)
    if sketch.encode(bins) != moments.sketch:
        raise Rejected("not the sketch's one encoding", field=field, allowed="bins by rising key")
    if sum(bins.values()) != moments.count:
        raise Rejected(
            "the bins hold another number of values",
            field=field,
            value=sum(bins.values()),
            allowed=moments.count,
        )

"""What happened in one window: integer sums, mergeable sketches, latest readings.

Here and not beside the feature stage, because an engine's edge may count for itself and send the
counts (``signals.events.Counted``) instead of every request.
"""

from __future__ import annotations

from msgspec import Struct


class Moments(Struct, frozen=True, kw_only=True):
    """Count, sum and sum of squares of a duration in µs, and its quantile sketch's bytes."""

    count: int = 0
    sum_us: int = 0
    sum_sq: int = 0
    sketch: bytes = b""


class WindowCounts(Struct, frozen=True, kw_only=True):
    """What happened in a window to one intent.

    A request counts in ``judged`` when it completes, or as failed when its SLO deadline passes;
    ``good`` of them met every SLO set, with ``good_tokens`` of output. ``completed`` ended with
    status ``ok``, ``errors`` with ``error``. Arrivals, tokens and ``covered_us`` (how much of the
    window was reported) come from the engine's seconds; waiting, running and KV blocks are as they
    stood at ``gauge_us`` (0: not reported). ``prefix_lookups`` and ``prefix_hits`` are prompt
    tokens looked up and found in the replica's prefix cache, the same in each of its intents.

    ``requests`` are those that *arrived* in the window, and ``outcomes`` what users made of these,
    whenever they did: metric -> producer -> (requests with a value, sum of values in micro-units).
    One producer's values of one metric for one request are one value: the latest by (time, id) of a
    boolean or float, the sum of a count or duration. So ``outcomes`` over ``requests`` is a rate
    once the metric's attribution window has closed for the whole window, and not before.
    """

    arrivals: int = 0
    offered_tokens: int = 0
    completed: int = 0
    errors: int = 0
    judged: int = 0
    good: int = 0
    good_tokens: int = 0
    output_tokens: int = 0
    covered_us: int = 0
    prefix_lookups: int = 0
    prefix_hits: int = 0
    requests: int = 0
    gauge_us: int = 0
    waiting: int = 0
    running: int = 0
    kv_blocks_used: int = 0
    kv_blocks_total: int = 0
    ttft: Moments = Moments()
    tpot: Moments = Moments()
    e2e: Moments = Moments()
    outcomes: dict[str, dict[str, tuple[int, int]]] = {}

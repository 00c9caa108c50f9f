"""U of a stretch of life, minute by minute, as the product defines it::

    U = ½·min(1, tokens per second of the maximised intent / reference)
      + ½·mean over intents of min(1, attainment / target)

The rate counts only while somebody of that intent waits; a minute without backlog has all it asked
for, so its share is 1. An intent without arrivals in a minute takes no part in it.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from benchmarks.control.scenarios import TARGET
from engine.simulated.fleet import Fleet
from signals.events import MICROS
from signals.features.model import RequestRow, SecondRow

MINUTE_US = 60 * MICROS


def utility(fleet: Fleet, from_s: float, to_s: float, *, reference: float) -> float:
    """Mean U of the minutes in (from, to]. ``reference``: tokens per second that count as 1."""
    from_us, to_us = round(from_s * MICROS), round(to_s * MICROS)
    requests: defaultdict[int, list[RequestRow]] = defaultdict(list)
    for row in fleet.requests(from_us, to_us):
        requests[row.arrival_us // MINUTE_US].append(row)
    seconds: defaultdict[int, list[SecondRow]] = defaultdict(list)
    for second in fleet.seconds(from_us, to_us):
        seconds[second.to_us // MINUTE_US].append(second)
    return float(np.mean([_minute(rows, seconds[at], reference) for at, rows in requests.items()]))


def attainment(fleet: Fleet, intent: str, from_s: float, to_s: float) -> float:
    """The share of good ones among an intent's requests that are decided; 1 without any."""
    rows = fleet.requests(round(from_s * MICROS), round(to_s * MICROS))
    judged = [row.good for row in rows if row.intent == intent and row.good is not None]
    return sum(judged) / len(judged) if judged else 1.0


def _minute(rows: list[RequestRow], seconds: list[SecondRow], reference: float) -> float:
    met = [share for name in TARGET.intents if (share := _met(rows, name)) is not None]
    return 0.5 * _rate(seconds, reference) + 0.5 * float(np.mean(met or [1.0]))


def _met(rows: list[RequestRow], intent: str) -> float | None:
    judged = [row.good for row in rows if row.intent == intent and row.good is not None]
    if not judged:
        return None
    return min(1.0, sum(judged) / len(judged) / TARGET.intents[intent].slo.attainment)


def _rate(seconds: list[SecondRow], reference: float) -> float:
    busy = [one for one in seconds if one.waiting.get(TARGET.maximized, 0) > 0]
    length_us = sum(one.to_us - one.from_us for one in busy)
    if length_us == 0:
        return 1.0
    tokens = sum(one.output_tokens.get(TARGET.maximized, 0) for one in busy)
    return min(1.0, tokens * MICROS / length_us / reference)

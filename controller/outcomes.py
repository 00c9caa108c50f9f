"""How episodes of emergency rules ended: the attainment from their trigger to their horizon."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from controller.rule_notes import Episode
from signals.features.model import ATOM_S, Features
from signals.features.windows import end_us


def outcomes(
    features: Features, target: str, episodes: Iterable[Episode], *, closed_us: int
) -> Mapping[str, float | None]:
    """By policy, of the episodes whose last window has closed: 0 to 1. None: no request ended.

    Every intent weighs the same, however many requests it has: it is each intent's limit that an
    emergency defends.
    """
    found = {}
    for one in episodes:
        if closed_us >= one.to_us + ATOM_S * 1_000_000:
            found[one.policy] = _attained(features, target, one)
    return found


def _attained(features: Features, target: str, episode: Episode) -> float | None:
    good: Counter[str] = Counter()
    judged: Counter[str] = Counter()
    for window in features.windows(target, from_us=episode.from_us, to_us=episode.to_us):
        if end_us(window.key) <= episode.to_us:
            good[window.key.intent] += window.counts.good
            judged[window.key.intent] += window.counts.judged
    shares = [good[intent] / count for intent, count in sorted(judged.items()) if count > 0]
    return sum(shares) / len(shares) if shares else None

"""Business rates of a target, read from the windows that each metric needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from controller.keys import influences
from controller.store.port import Store
from signals.definitions import Definition
from signals.features.model import Features
from signals.features.rates import Rate, rates, stretch, width_for
from signals.features.view import TARGET
from signals.settings import FeatureSettings

ScopedRates = Mapping[str, Mapping[str, Rate]]
"""``target`` or an intent -> metric -> rate."""


class Terms(Struct, frozen=True, kw_only=True):
    """What rates are computed under: definitions in force, and each producer's largest share."""

    definitions: Mapping[str, Definition]
    caps: Mapping[str, float]


def terms(store: Store, *, now_us: int) -> Terms:
    """As the store says now. Raises ``Unavailable``."""
    with store.read() as tx:
        return Terms(
            definitions={each.name: each for each in tx.definitions()},
            caps=influences(tx.keys(), now_us=now_us),
        )


class Rating(Struct, frozen=True, kw_only=True):
    """Reads rates. ``terms`` is asked at each reading."""

    features: Features
    settings: FeatureSettings
    terms: Callable[[], Terms]

    def of(
        self,
        target: str,
        intents: Iterable[str],
        *,
        with_open: bool = False,
        at_us: int | None = None,
    ) -> ScopedRates:
        """The rates of a target and each of its intents. ``with_open``: count open requests too,
        which looks at all windows since. ``at_us``: as of then, from what is stored today; None:
        as of the watermark. Raises ``Unavailable``.

        Metrics of one attribution share a reading of at most ``rate_span_s`` of windows.
        """
        now = self.terms()
        watermark_us = self.features.watermark_us(target) if at_us is None else at_us
        found: dict[str, dict[str, Rate]] = {scope: {} for scope in (TARGET, *intents)}
        if not watermark_us:
            return found
        by_attribution: defaultdict[int, dict[str, Definition]] = defaultdict(dict)
        for name, each in now.definitions.items():
            by_attribution[each.metric.attribution_s][name] = each
        for attribution_s, alike in sorted(by_attribution.items()):
            self._read(target, attribution_s, alike, now.caps, watermark_us, found, with_open)
        return found

    def _read(
        self,
        target: str,
        attribution_s: int,
        definitions: Mapping[str, Definition],
        caps: Mapping[str, float],
        watermark_us: int,
        found: Mapping[str, dict[str, Rate]],
        with_open: bool,
    ) -> None:
        """Add the rates of metrics with one attribution."""
        width_s, span_s = width_for(attribution_s, self.settings), self.settings.rate_span_s
        from_us, to_us = stretch(
            watermark_us=watermark_us, attribution_s=attribution_s, span_s=span_s, width_s=width_s
        )
        windows = self.features.windows(target, from_us=from_us, to_us=to_us, width_s=width_s)
        still_open: Mapping[str, int] = {}
        if with_open and windows:
            still_open = self.features.arrived(target, from_us=to_us, width_s=width_s)
        for scope, mine in found.items():
            of = rates(
                [window for window in windows if scope in (TARGET, window.key.intent)],
                definitions,
                watermark_us=watermark_us,
                span_s=span_s,
                caps=caps,
            )
            wanted = (intent for intent in still_open if scope in (TARGET, intent))
            waiting = sum(still_open[intent] for intent in wanted)
            mine.update({name: replace(rate, open_requests=waiting) for name, rate in of.items()})

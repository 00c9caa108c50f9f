"""Business rates: of requests whose time for feedback is over, and within each producer's cap."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest
from msgspec.structs import replace

from signals.counts import WindowCounts
from signals.definitions import Definition, StaticDefinitions
from signals.events import MICROS
from signals.features.model import WindowKey, WindowRevision
from signals.features.rates import Rate, rates, shares, stretch, width_for
from signals.features.windows import end_us
from signals.settings import FeatureSettings, MetricSettings
from tests.signals.making import T0_US

HOUR_S = 3600
METRICS = StaticDefinitions(
    {
        "copied": MetricSettings(attribution_s=600),
        "stars": MetricSettings(type="float", low=0, high=5, attribution_s=600),
        "slow": MetricSettings(attribution_s=7200),
    }
).current()
Given = Mapping[str, tuple[int, float]]
"""Producer -> (requests with a value, their mean)."""


def window(
    start_s: int,
    requests: int = 0,
    *,
    closed: bool = True,
    width_s: int = 60,
    **outcomes: Given,
) -> WindowRevision:
    return WindowRevision(
        cursor=1,
        key=WindowKey(
            target="chat",
            replica="r0",
            intent="live",
            digest="d",
            trial="",
            block=-1,
            start_us=T0_US + start_s * MICROS,
            width_s=width_s,
        ),
        revision=1,
        closed=closed,
        incomplete=False,
        counts=WindowCounts(
            requests=requests,
            outcomes={
                metric: {p: (n, round(n * mean * MICROS)) for p, (n, mean) in given.items()}
                for metric, given in outcomes.items()
            },
        ),
    )


def said(requests: int, metric: str, given: Given) -> WindowRevision:
    empty = window(0, requests)
    sums = {name: (n, round(n * mean * MICROS)) for name, (n, mean) in given.items()}
    counts = replace(empty.counts, outcomes={metric: sums})
    return replace(empty, counts=counts)


def rated(
    *windows: WindowRevision,
    at_s: int = 10**6,
    span_s: int = HOUR_S,
    caps: Mapping[str, float] | None = None,
    definitions: Mapping[str, Definition] = METRICS,
) -> dict[str, Rate]:
    watermark_us = T0_US + at_s * MICROS
    return rates(windows, definitions, watermark_us=watermark_us, span_s=span_s, caps=caps or {})


def test_only_cohorts_whose_attribution_is_over_count_and_the_others_are_said() -> None:
    windows = [window(60 * n, 10, copied={"shop": (n, 1.0)}) for n in range(5)]
    found = rated(*windows, at_s=180 + 600)["copied"]
    assert (found.closed_requests, found.with_value, found.open_requests) == (30, 3, 20)
    assert found.value == pytest.approx(3 / 30)
    assert rated(*windows, at_s=179 + 600)["copied"].closed_requests == 20
    assert "slow" not in rated(*windows, at_s=180 + 600), "nothing has closed: no rate at all"
    assert rated(*windows, at_s=59 + 600) == {}


def test_a_window_that_may_still_change_is_not_closed() -> None:
    assert rated(window(0, 10, closed=False)) == {}


def test_silence_is_a_zero_or_nothing_as_the_metric_says() -> None:
    found = rated(window(0, 10, copied={"shop": (4, 1.0)}, stars={"shop": (4, 2.5)}))
    assert found["copied"].value == pytest.approx(0.4)
    assert found["stars"].value == pytest.approx(2.5)
    silent = rated(window(0, 10))
    assert (silent["copied"].value, silent["stars"].value) == (0.0, None)
    nobody = rated(window(0, 0))
    assert (nobody["copied"].value, nobody["stars"].value) == (None, None)


def test_the_latest_stretch_counts() -> None:
    windows = [window(60 * n, 1, copied={"shop": (1, float(n >= 8))}) for n in range(10)]
    assert rated(*windows, span_s=120)["copied"].value == 1.0
    assert rated(*windows, span_s=240)["copied"].value == 0.5
    found = rated(*windows, span_s=240)["copied"]
    assert (found.from_us, found.to_us) == (T0_US + 360 * MICROS, end_us(windows[-1].key))
    wide = window(0, 4, width_s=HOUR_S, copied={"shop": (1, 1.0)})
    assert rated(wide, span_s=60)["copied"].value == 0.25, "one window at least"


def test_every_producer_is_shown_with_its_share() -> None:
    found = rated(window(0, 10, stars={"shop": (3, 4.0), "app": (1, 2.0)}))["stars"]
    assert found.value == pytest.approx(3.5)
    assert [(p, x.requests, x.mean, x.share) for p, x in found.by_producer.items()] == [
        ("app", 1, 2.0, 0.25),
        ("shop", 3, 4.0, 0.75),
    ]


def test_a_capped_producer_weighs_its_cap_at_most() -> None:
    flood = window(0, 1000, stars={"shop": (100, 4.0), "mob": (900, 0.0)})
    assert rated(flood)["stars"].value == pytest.approx(0.4)
    found = rated(flood, caps={"mob": 0.1})["stars"]
    assert found.value == pytest.approx(0.9 * 4.0)
    assert found.by_producer["mob"].share == pytest.approx(0.1)
    below = window(0, 1000, stars={"shop": (95, 4.0), "mob": (5, 0.0)})
    assert rated(below, caps={"mob": 0.1})["stars"].value == pytest.approx(0.95 * 4.0)


def test_below_every_cap_values_weigh_the_same() -> None:
    counts = {"a": 10, "b": 20, "c": 70}
    assert shares(counts, {"a": 0.2, "b": 0.2}, requests=0) == {"a": 0.1, "b": 0.2, "c": 0.7}
    assert shares(counts, {"a": 0.2}, requests=200) == {"a": 0.05, "b": 0.1, "c": 0.35}


def test_what_capped_producers_alone_carry_is_unknown() -> None:
    alone = window(0, 100, stars={"mob": (10, 5.0)}, copied={"mob": (10, 1.0)})
    found = rated(alone, caps={"mob": 0.5})
    assert found["stars"].value is None
    assert found["copied"].value == pytest.approx(0.1), "the silence of the others is evidence too"
    all_of_it = window(0, 100, copied={"mob": (100, 1.0), "rabble": (100, 1.0)})
    assert rated(all_of_it, caps={"mob": 0.6, "rabble": 0.6})["copied"].value is None


def test_flooding_a_metric_does_not_silence_the_silent() -> None:
    """Without the mob 10 of 1000 copied. It must not turn the other 990 from zeros into nothing."""
    honest = {"shop": (10, 1.0)}
    before = rated(window(0, 1000, copied=honest))["copied"].value
    assert before is not None
    assert before == pytest.approx(0.01)
    for said in (0.0, 1.0):
        flood = window(0, 1000, copied={**honest, "mob": (1000, said)})
        after = rated(flood, caps={"mob": 0.1})["copied"].value
        assert after is not None
        assert abs(after - before) <= 0.1 + 1e-9


@pytest.mark.parametrize("metric", ["copied", "stars"])
def test_no_producer_moves_a_rate_beyond_its_cap(metric: str) -> None:
    """Poisoning: random honest crowds, capped and not, and one that says anything, any number."""
    seed = 31_337
    rng = Random(seed)
    high = METRICS[metric].metric.high
    for case in range(3000):
        requests = rng.choice([1, 10, 1000])
        crowd = {
            f"p{n}": (rng.randint(1, requests), rng.random() * high)
            for n in range(rng.randint(0, 4))
        }
        caps = {name: rng.choice([0.01, 0.1, 0.3, 0.6]) for name in crowd if rng.random() < 0.6}
        cap = rng.choice([0.01, 0.1, 0.5, 0.9])
        mob = (rng.randint(1, requests), rng.choice([0.0, high]))
        without = rated(said(requests, metric, crowd), caps=caps)[metric].value
        with_it = rated(said(requests, metric, {**crowd, "mob": mob}), caps={**caps, "mob": cap})[
            metric
        ].value
        if without is None:
            assert metric == "copied" or with_it is None, f"seed {seed}, case {case}"
        elif with_it is not None:
            assert abs(with_it - without) <= cap * high + 1e-6, f"seed {seed}, case {case}"
            assert -1e-9 <= with_it <= high + 1e-9, f"seed {seed}, case {case}"


def test_a_rate_reads_the_windows_that_are_kept_long_enough() -> None:
    settings = FeatureSettings()
    assert width_for(604_800, settings) == 3600
    assert width_for(86_400, settings) == 300
    assert width_for(600, settings) == 300
    short = FeatureSettings(rate_span_s=60)
    assert width_for(60, short) == 5
    assert width_for(7200, short) == 60


def test_a_stretch_is_of_whole_windows_that_have_closed() -> None:
    hour_us = HOUR_S * MICROS
    watermark_us = 1000 * hour_us + 5
    from_us, to_us = stretch(
        watermark_us=watermark_us, attribution_s=604_800, span_s=HOUR_S, width_s=HOUR_S
    )
    assert (from_us, to_us) == ((1000 - 168 - 1) * hour_us, (1000 - 168) * hour_us)
    assert stretch(watermark_us=watermark_us, attribution_s=1, span_s=60, width_s=3600) == (
        998 * hour_us,
        999 * hour_us,
    )

"""The features that rules see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import pytest

from signals.events import MICROS, IntentLoad
from signals.features.rates import Rate
from signals.features.reader import SqliteFeatures
from signals.features.view import feature_values
from tests.signals.making import INTENTS, T0_US, Folding, finished, second, stamp

NOW_US = T0_US + 15 * MICROS
LIVE = IntentLoad(arrivals=2, offered_tokens=60, output_tokens=30, waiting=3, running=1)
BATCH = IntentLoad(arrivals=1, offered_tokens=16, output_tokens=10, waiting=7, running=2)


def view(
    features: SqliteFeatures,
    *,
    now_us: int = NOW_US,
    span_s: int = 10,
    intents: Sequence[str] = tuple(INTENTS["chat"]),
    rates: Mapping[str, Mapping[str, Rate]] | None = None,
) -> dict[str, float]:
    return feature_values(
        features.windows("chat", from_us=0, to_us=2**62),
        features.seconds("chat", from_us=0, to_us=2**62),
        now_us=now_us,
        span_s=span_s,
        intents=intents,
        rates=rates,
    )


def test_without_evidence_there_is_no_name_at_all(
    folding: Folding, features: SqliteFeatures
) -> None:
    folding.take(second(0, T0_US + MICROS, live=LIVE))
    assert view(features, now_us=NOW_US + 60 * MICROS) == {}
    assert feature_values([], [], now_us=NOW_US, intents=["live"]) == {}


def test_names_and_values_of_intents_and_target(folding: Folding, features: SqliteFeatures) -> None:
    for replica in ("r0", "r1"):
        by = stamp(replica=replica)
        folding.take(
            *(
                second(seq, T0_US + (6 + seq) * MICROS, by=by, live=LIVE, batch=BATCH)
                for seq in range(8)
            )
        )
    ends = [
        finished(8 + n, n, T0_US + 8 * MICROS, T0_US + 9 * MICROS, ttft_us=ttft_us)
        for n, ttft_us in enumerate([100_000, 200_000, 300_000, 2_000_000])
    ]
    error = finished(12, 5, T0_US + 8 * MICROS, T0_US + 9 * MICROS, status="error", ttft_us=None)
    folding.take(*ends, error)
    half = Rate(
        value=0.5,
        closed_requests=2,
        with_value=1,
        open_requests=0,
        from_us=0,
        to_us=1,
        by_producer={},
    )
    unknown = msgspec.structs.replace(half, value=None)
    rates = {"live": {"copied": half, "resent": unknown}, "batch": {"copied": unknown}}
    found = view(features, rates=rates)
    assert found["live.attainment"] == pytest.approx(3 / 5)
    assert found["live.error_rate"] == pytest.approx(1 / 5)
    assert found["live.ttft_ms_p50"] == pytest.approx(200, rel=0.02)
    assert found["live.ttft_ms_p99"] == pytest.approx(300, rel=0.02)
    assert found["live.tpot_ms_p95"] == pytest.approx(20, rel=0.02)
    assert found["live.e2e_ms_p50"] == pytest.approx(1000, rel=0.02)
    assert found["live.goodput_per_s"] == pytest.approx(3 / 8), "of r0; r1 had none"
    assert found["live.goodput_tokens_per_s"] == pytest.approx(15 / 8)
    assert found["live.kv_hit_ratio"] == pytest.approx(0.25)
    assert found["target.kv_hit_ratio"] == pytest.approx(0.25), "once, not once for each intent"
    assert found["live.copied_rate"] == 0.5
    assert "batch.copied_rate" not in found
    assert found["live.arrivals_per_s"] == pytest.approx(4.0), "two replicas, 2 a second each"
    assert found["live.tokens_per_s"] == pytest.approx(60.0)
    assert found["live.offered_tokens_per_s"] == pytest.approx(120.0)
    assert (found["live.waiting"], found["live.running"]) == (6.0, 2.0)
    assert found["live.kv_usage"] == pytest.approx(0.1)
    assert found["batch.waiting"] == 14.0
    assert found["batch.tokens_per_s"] == pytest.approx(20.0)
    assert "batch.attainment" not in found, "unknown, not one and not zero"
    assert "live.resent_rate" not in found
    assert found["target.tokens_per_s"] == pytest.approx(80.0)
    assert found["target.waiting"] == 20.0
    assert found["target.kv_usage"] == pytest.approx(0.1)
    assert found["target.attainment"] == found["live.attainment"]
    assert {type(value) for value in found.values()} == {float}


def test_an_idle_intent_is_known_to_be_idle(folding: Folding, features: SqliteFeatures) -> None:
    folding.take(*(second(seq, T0_US + (10 + seq) * MICROS, live=LIVE) for seq in range(3)))
    found = view(features)
    assert found["batch.arrivals_per_s"] == 0.0
    assert found["batch.waiting"] == 0.0


def test_only_the_span_counts(folding: Folding, features: SqliteFeatures) -> None:
    folding.take(
        finished(0, 1, T0_US, T0_US + MICROS, ttft_us=5_000_000, status="error"),
        second(1, T0_US + 2 * MICROS, live=LIVE),
        finished(2, 2, T0_US, T0_US + 13 * MICROS),
        second(3, T0_US + 14 * MICROS, live=BATCH),
    )
    found = view(features, span_s=5)
    assert found["live.error_rate"] == 0.0
    assert found["live.arrivals_per_s"] == pytest.approx(1.0)
    assert found["live.waiting"] == 7.0


def test_the_latest_reading_wins_across_a_change_of_settings(
    folding: Folding, features: SqliteFeatures
) -> None:
    folding.take(
        second(0, T0_US + 11 * MICROS, live=LIVE),
        second(1, T0_US + 12 * MICROS, by=stamp(digest="d1"), live=BATCH),
    )
    assert view(features)["live.waiting"] == 7.0

"""Windows over REST: figures, pages, and business rates that wait for their attribution."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from signals.events import MICROS, IntentLoad
from signals.features.reader import SqliteFeatures
from signals.settings import MetricSettings
from tests.api.plane import Plane
from tests.loop.plant import START_S
from tests.signals.making import arrived, feedback, finished, second, stamp

T_US = round(START_S) * MICROS - 600 * MICROS
"""Ten minutes before the plane's time; a whole minute."""
SHORT = MetricSettings(attribution_s=60)


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """Two replicas, four requests in two windows, one of them slow, and what a user did."""
    plane = Plane(tmp_path_factory.mktemp("counted"))
    features = SqliteFeatures(plane.folder / "features.db")
    plane.app.state.services = msgspec.structs.replace(plane.services, features=features)
    with plane.world.store.write() as tx:
        tx.declare("copied", SHORT, managed_by="api", actor="test", at_us=1)
    other = stamp(replica="r1")
    load = IntentLoad(arrivals=2, output_tokens=10, waiting=1, running=2)
    plane.stage.take(
        arrived(1, 1, T_US),
        finished(2, 1, T_US, T_US + 500_000),
        arrived(3, 2, T_US + MICROS),
        finished(4, 2, T_US + MICROS, T_US + 4 * MICROS, ttft_us=2_000_000),
        second(5, T_US + 4 * MICROS, live=load),
        arrived(1, 3, T_US + MICROS, by=other),
        finished(2, 3, T_US + MICROS, T_US + 2 * MICROS, by=other),
        second(3, T_US + 4 * MICROS, by=other, live=load),
        arrived(6, 4, T_US + 8 * MICROS),
        finished(7, 4, T_US + 8 * MICROS, T_US + 9 * MICROS),
        feedback("a", T_US + 3 * MICROS, number=1),
    )
    plane.stage.take(second(8, T_US + 120 * MICROS), second(4, T_US + 120 * MICROS, by=other))
    yield plane
    features.close()
    plane.close()


def windows(plane: Plane, query: str) -> list[dict[str, Any]]:
    answer = plane.get(f"/v1/features?target=chat&intent=live&from={T_US}&{query}")
    assert answer.status == 200, answer.body
    found: list[dict[str, Any]] = answer["items"]
    return found


def test_each_window_has_its_counts_and_figures(counted: Plane) -> None:
    found = [one for one in windows(counted, "width=5s") if one["counts"]["judged"]]
    assert [(one["replica"], one["start_us"] - T_US) for one in found] == [
        ("r0", 0),
        ("r1", 0),
        ("r0", 5 * MICROS),
    ]
    first = found[0]
    assert (first["closed"], first["incomplete"], first["revision"]) == (True, False, 1)
    assert (first["counts"]["judged"], first["figures"]["attainment"]) == (2, 0.5)
    assert first["figures"]["goodput_per_s"] == pytest.approx(1.0)
    assert first["figures"]["tokens_per_s"] == pytest.approx(10.0)
    assert first["figures"]["ttft_ms_p50"] == pytest.approx(200, rel=0.02)
    assert first["figures"]["kv_usage"] == pytest.approx(0.1)
    assert first["figures"]["kv_hit_ratio"] == pytest.approx(0.25)
    assert "sketch" not in first["counts"]["ttft"]


def test_merged_windows_add_replicas_up(counted: Plane) -> None:
    first = windows(counted, "width=5s&by=intent")[0]
    assert (first["replica"], first["counts"]["judged"]) == (None, 3)
    assert first["figures"]["attainment"] == pytest.approx(2 / 3)
    assert first["figures"]["tokens_per_s"] == pytest.approx(20.0)
    assert (first["figures"]["waiting"], first["figures"]["running"]) == (2.0, 4.0)
    minute = windows(counted, "width=1m&by=target")[0]
    assert minute["counts"]["judged"] == 4
    assert minute["intent"] is None


def test_a_business_rate_is_of_those_whose_attribution_has_closed(counted: Plane) -> None:
    merged = {one["start_us"] - T_US: one for one in windows(counted, "width=5s&by=intent")}
    copied = merged[0]["metrics"]["copied"]
    assert (copied["closed_requests"], copied["open_requests"]) == (3, 0)
    assert copied["rate"] == pytest.approx(1 / 3)
    (shop,) = copied["producers"].values()
    assert (shop["requests"], shop["mean"], shop["share"]) == (1, 1.0, pytest.approx(1 / 3))
    assert merged[5 * MICROS]["metrics"]["copied"]["rate"] == 0.0
    thumbs = merged[0]["metrics"].get("thumbs")
    assert thumbs is None, "nobody gave one, and absent thumbs say nothing"
    slow = merged[0]["metrics"]["human_takeover"]
    assert (slow["rate"], slow["open_requests"]) == (None, 3)


def test_pages_join_up_without_a_gap_or_an_overlap(counted: Plane) -> None:
    whole = windows(counted, "width=5s")
    gathered: list[dict[str, Any]] = []
    after = ""
    while True:
        query = f"target=chat&intent=live&from={T_US}&width=5s&limit=2{after}"
        page = counted.get(f"/v1/features?{query}")
        gathered += page["items"]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert gathered == whole
    assert len(whole) > 4


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("width=2m", "width"),
        ("by=moon", "by"),
        ("limit=0", "limit"),
        ("after=x", "after"),
        (f"from={T_US}&to={T_US}", "from"),
    ],
)
def test_a_bad_question_is_refused_with_its_field(calm: Plane, query: str, field: str) -> None:
    refused = calm.get(f"/v1/features?target=chat&{query}")
    assert (refused.status, refused["field"]) == (422, field)


def test_a_target_that_is_not_declared_is_not_found(calm: Plane) -> None:
    assert calm.get("/v1/features?target=search").status == 404
    assert calm.get("/v1/features").status == 422

"""Invariant 4: when a request counts, and as what."""

from __future__ import annotations

import pytest

from signals.events import MICROS
from signals.features.model import RequestRow, WindowCounts
from signals.features.reader import SqliteFeatures
from signals.features.requests import judge, row_of_arrival, row_of_end
from signals.settings import Slo
from tests.signals.making import T0_US, Folding, arrived, finished, request_id, second, stamp

LIVE_DEADLINE_US = (1000 + 50 * 20) * 1000
"""ttft 1 s + 20 further tokens at 50 ms."""


def row(features: SqliteFeatures, number: int = 1) -> RequestRow:
    found = features.request(request_id(number))
    assert found is not None
    return found


def judged(features: SqliteFeatures) -> dict[int, tuple[int, int]]:
    """Seconds after T0 at which a window starts -> (judged, good), where any were."""
    found: dict[int, tuple[int, int]] = {}
    for window in features.windows("chat", from_us=0, to_us=2**62):
        counts: WindowCounts = window.counts
        if counts.judged or counts.good:
            found[(window.key.start_us - T0_US) // MICROS] = (counts.judged, counts.good)
    return found


@pytest.mark.parametrize(
    ("ttft_us", "tpot_us", "took_us", "status", "good"),
    [
        (1_000_000, 50_000, 1_500_000, "ok", True),
        (1_000_001, 50_000, 1_500_000, "ok", False),
        (1_000_000, 50_001, 1_500_000, "ok", False),
        (100, None, 1_500_000, "ok", True),
        (None, None, 1_500_000, "ok", False),
        (100, 100, 1_500_000, "cancelled", True),
        (None, None, 1_500_000, "cancelled", False),
        (100, 100, 1_500_000, "error", False),
        (None, None, 0, "rejected", False),
    ],
)
def test_a_finished_request_is_judged_by_every_level_that_is_set(
    folding: Folding,
    features: SqliteFeatures,
    ttft_us: int | None,
    tpot_us: int | None,
    took_us: int,
    status: str,
    good: bool,
) -> None:
    end = finished(
        0,
        1,
        T0_US,
        T0_US + took_us,
        status=status,  # type: ignore[arg-type]
        ttft_us=ttft_us,
        tpot_us=tpot_us,
    )
    folding.take(end)
    assert row(features).good is good
    assert judged(features) == {0: (1, int(good))}


def test_an_unfinished_request_is_undecided_until_the_watermark_passes_its_deadline(
    folding: Folding, features: SqliteFeatures
) -> None:
    folding.take(arrived(0, 1, T0_US))
    assert row(features).deadline_us == T0_US + LIVE_DEADLINE_US
    folding.take(second(1, T0_US + LIVE_DEADLINE_US - 1))
    assert row(features).good is None, "not yet is missing, not zero"
    assert judged(features) == {}
    folding.take(second(2, T0_US + LIVE_DEADLINE_US))
    assert row(features).good is False
    assert judged(features) == {0: (1, 0)}


def test_a_later_finish_corrects_the_figures_but_not_the_judgement(
    folding: Folding, features: SqliteFeatures
) -> None:
    folding.take(arrived(0, 1, T0_US), second(1, T0_US + 10 * MICROS))
    folding.take(finished(2, 1, T0_US, T0_US + 11 * MICROS))
    assert row(features).good is False
    assert row(features).finished_us == T0_US + 11 * MICROS
    assert judged(features) == {0: (1, 0)}
    windows = features.windows("chat", from_us=0, to_us=2**62)
    assert [w.counts.completed for w in windows if w.counts.completed] == [1]
    assert sum(w.counts.ttft.count for w in windows) == 1


def test_a_finish_in_time_that_is_told_late_is_judged_anew(
    folding: Folding, features: SqliteFeatures
) -> None:
    folding.take(arrived(0, 1, T0_US + 4 * MICROS), second(2, T0_US + 20 * MICROS))
    assert judged(features) == {5: (1, 0)}
    folding.take(finished(1, 1, T0_US + 4 * MICROS, T0_US + 4_900_000))
    assert row(features).good is True
    assert judged(features) == {0: (1, 1)}


def test_a_window_with_nothing_but_a_judgement_taken_back_closes_as_if_it_had_never_been(
    folding: Folding, features: SqliteFeatures
) -> None:
    other = stamp(digest="d1")
    folding.take(arrived(0, 1, T0_US + 4 * MICROS, by=other), second(2, T0_US + 20 * MICROS))
    folding.take(finished(1, 1, T0_US + 4 * MICROS, T0_US + 4_900_000, by=other))

    def starts() -> list[int]:
        windows = features.windows("chat", from_us=0, to_us=2**62)
        return [w.key.start_us - T0_US for w in windows if w.key.digest == "d1"]

    assert starts() == [0, 5 * MICROS], "open, it says that the judgement is gone"
    folding.take(second(3, T0_US + 60 * MICROS))
    assert starts() == [0]


def test_many_deadlines_that_pass_at_once_are_all_judged(
    folding: Folding, features: SqliteFeatures
) -> None:
    folding.take(*(arrived(number, number, T0_US + number) for number in range(300)))
    folding.take(second(300, T0_US + 60 * MICROS))
    assert len(features.find_requests("chat", good=False, limit=1000)) == 300
    assert judged(features) == {0: (300, 0)}


def test_only_an_end_can_fail_a_request_with_nothing_but_a_first_token_limit() -> None:
    slo = Slo(ttft_ms=100)
    waiting = row_of_arrival(arrived(0, 1, T0_US), slo)
    assert waiting.deadline_us is None
    assert judge(waiting, slo, watermark_us=T0_US + 10**12) is None
    end = row_of_end(finished(1, 1, T0_US, T0_US + 60 * MICROS, ttft_us=99_000), waiting, slo)
    verdict = judge(end, slo, watermark_us=0)
    assert verdict is not None
    assert verdict.good


def test_a_request_belongs_to_the_stamp_it_arrived_under(
    folding: Folding, features: SqliteFeatures
) -> None:
    folding.take(arrived(0, 1, T0_US, by=stamp(digest="old")))
    folding.take(finished(1, 1, T0_US, T0_US + MICROS, by=stamp(digest="new")))
    assert row(features).digest == "old"
    windows = features.windows("chat", from_us=0, to_us=2**62)
    assert {w.key.digest for w in windows if w.counts.completed} == {"old"}


def test_a_second_end_of_the_same_request_changes_nothing(
    folding: Folding, features: SqliteFeatures
) -> None:
    folding.take(finished(0, 1, T0_US, T0_US + MICROS))
    folding.take(finished(1, 1, T0_US, T0_US + 2 * MICROS, status="error"))
    assert row(features).status == "ok"
    assert judged(features) == {0: (1, 1)}

"""Invariant 1 for scores: one for each (request, metric, model), under whatever id it is posted."""

from __future__ import annotations

from signals.events import MICROS
from signals.features.reader import SqliteFeatures
from tests.signals.making import T0_US, Folding, arrived, request_id, score

ARRIVED = arrived(0, 1, T0_US)
FIRST = score("a", T0_US + MICROS, number=1, value=0.5)


def scored(features: SqliteFeatures) -> dict[str, tuple[int, int]]:
    (window,) = [w for w in features.windows("chat", from_us=0, to_us=2**62) if w.counts.outcomes]
    return window.counts.outcomes["reward"]


def test_the_same_score_under_another_id_is_a_duplicate(
    folding: Folding, features: SqliteFeatures
) -> None:
    again = score("b", T0_US + 9 * MICROS, number=1, value=0.5)
    folding.take(ARRIVED, FIRST, again)
    folding.take(score("c", T0_US + 86_400 * MICROS, number=1, value=0.5), again)
    assert scored(features) == {"score": (1, 500_000)}
    assert len(features.outcomes(request_id(1))) == 1
    assert features.producers()["score"].duplicate == 3
    assert features.dead_letters() == []


def test_another_score_of_the_same_model_is_a_conflict(
    folding: Folding, features: SqliteFeatures
) -> None:
    folding.take(ARRIVED, FIRST)
    folding.take(score("b", T0_US + MICROS, number=1, value=0.6))
    assert scored(features) == {"score": (1, 500_000)}
    (dead,) = features.dead_letters()
    assert (dead.reason, dead.event_id) == ("conflict", "b")
    assert "another score" in dead.detail


def test_another_model_or_metric_or_request_is_another_score(
    folding: Folding, features: SqliteFeatures
) -> None:
    folding.take(ARRIVED, FIRST, score("b", T0_US + 2 * MICROS, number=1, value=0.7, model="m2"))
    folding.take(score("c", T0_US + MICROS, number=2, value=0.9))
    assert [each.model for each in features.outcomes(request_id(1))] == ["m1", "m2"]
    assert scored(features) == {"score": (1, 700_000)}, "the later one is its producer's value"
    assert features.dead_letters() == []


def test_scores_are_remembered_while_their_request_is_not_known(
    folding: Folding, features: SqliteFeatures
) -> None:
    folding.take(FIRST)
    folding.take(score("b", T0_US + MICROS, number=1, value=0.5))
    folding.take(ARRIVED)
    assert [each.event_id for each in features.outcomes(request_id(1))] == ["a"]

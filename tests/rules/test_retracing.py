"""Rules led through the past: the loop's own timers, and what became of each firing."""

from __future__ import annotations

import doctest
import random
from collections.abc import Mapping
from typing import Any

from controller.rules import moves, retracing
from controller.rules.firing import Timers, fire
from controller.rules.retracing import PastRule, Retracer
from signals.events import MICROS
from tests.rules.test_rules import HIGH, LOW, loaded

NOTHING: Mapping[str, float] = {}
FOR_10S: dict[str, Any] = {"for": "10s", "cooldown": "60s"}


def traced(looks: str, *, follow_s: float = 30.0, most: int = 10, **rule: Any) -> PastRule:
    """A look every 5 s: ``#`` true, ``.`` false, ``?`` unknown; after a ``|`` only followed."""
    seen = {"#": LOW, ".": HIGH, "?": NOTHING}
    past = Retracer(
        loaded("live.attainment < 0.9", **(FOR_10S | rule)), follow_s=follow_s, most=most
    )
    counted, _, after = looks.partition("|")
    for number, look in enumerate(counted + after):
        past.look(seen[look], now_us=number * 5 * MICROS, counts=number < len(counted))
    return past.results()[0]


def test_the_documented_examples_are_true() -> None:
    for module in (retracing, moves):
        assert doctest.testmod(module).failed == 0


def test_a_firing_is_told_with_its_beginning_and_its_end() -> None:
    found = traced(".####...")
    assert found.fired == 1
    (one,) = found.firings
    assert (one.since_us, one.at_us) == (5 * MICROS, 15 * MICROS)
    assert (one.held_s, one.clear_s, one.outcome) == (20.0, 10.0, "cleared")
    assert one.evidence == LOW


def test_what_still_holds_when_nobody_follows_on_has_lasted() -> None:
    (one,) = traced("##########", follow_s=30.0).firings
    assert (one.held_s, one.clear_s, one.outcome) == (40.0, None, "lasted")


def test_nobody_knows_the_end_of_a_firing_at_the_end_of_history() -> None:
    (one,) = traced("####").firings
    assert (one.clear_s, one.outcome) == (None, "unknown")


def test_a_gap_ends_what_is_known_to_have_held_but_clear_is_clear() -> None:
    (one,) = traced("####?#..").firings
    assert (one.held_s, one.clear_s, one.outcome) == (15.0, 20.0, "cleared")


def test_after_the_span_nothing_fires_and_nothing_is_counted_but_ends_are_seen() -> None:
    found = traced("###|#.###########", cooldown="0s")
    assert (found.looks, found.fired) == (3, 1)
    assert found.firings[0].clear_s == 10.0


def test_unknown_looks_name_what_was_missing() -> None:
    found = traced("..?#??")
    assert (found.looks, found.true, found.unknown) == (6, 1, 3)
    assert found.missing == {"live.attainment": 3}


def test_all_firings_are_counted_and_the_first_are_listed() -> None:
    found = traced("#" * 20, most=2, cooldown="0s")
    assert found.fired == 18
    assert [one.at_us for one in found.firings] == [10 * MICROS, 15 * MICROS]


def test_it_fires_exactly_when_the_loop_s_own_timers_do() -> None:
    for seed in range(40):
        rng = random.Random(seed)
        looks = "".join(rng.choices("#.?", weights=(6, 1, 1), k=60))
        rules = loaded("live.attainment < 0.9", **FOR_10S)
        timers, moments = Timers(), []
        for number, look in enumerate(looks):
            seen = {"#": LOW, ".": HIGH, "?": NOTHING}[look]
            fired, timers = fire(rules, timers, seen, now_s=number * 5.0)
            moments += [number * 5 * MICROS] * len(fired)
        assert [one.at_us for one in traced(looks).firings] == moments, f"seed {seed}"

"""The campaign judges with the product's judge: it finds what is there, and repeats itself."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.campaign import KNEE, QUIET, Path, lives, summary, try_out, upper
from benchmarks.queue_model import BATCH, LIVE, QueueModel
from signals.events import MICROS


def test_steps_that_take_a_third_less_are_found_and_a_third_more_is_harm() -> None:
    faster, slower = (lives(QUIET, factor, 5, 1)[0] for factor in (2 / 3, 4 / 3))
    assert (faster.verdict, slower.verdict) == ("IMPROVED", "HARMED")
    assert faster.units >= 7


def test_the_same_seed_tells_the_same_story_and_other_coins_another() -> None:
    first, second, third = (
        try_out(Path(QueueModel(QUIET, 3), 0.9), seed=coins) for coins in (1, 1, 2)
    )
    assert first == second
    assert first != third


def test_the_load_does_not_depend_on_what_the_engine_does() -> None:
    slow, fast = QueueModel(KNEE, 4), QueueModel(KNEE, 4)
    slow.run(60 * MICROS, factor=1.5)
    fast.run(60 * MICROS, factor=0.5)
    chats = [
        [r.arrival_us for r in model.arrived(0, 50 * MICROS) if r.intent == LIVE]
        for model in (slow, fast)
    ]
    assert chats[0] == chats[1]
    assert len(chats[0]) > 100


def test_the_model_keeps_its_cap_and_gives_every_running_request_a_token_a_step() -> None:
    model = QueueModel(QUIET, 1)
    model.run(30 * MICROS)
    jobs = [r for r in model.requests if r.intent == BATCH]
    step_us = (QUIET.base_ms + QUIET.per_sequence_ms * QUIET.cap) * 1000
    took = [
        (r.finished_us - r.first_us) / (r.tokens - 1) for r in jobs if r.first_us and r.finished_us
    ]
    assert float(np.median(took)) == pytest.approx(step_us, rel=0.001)
    tokens = sum(sum(second.output_tokens.values()) for second in model.seconds)
    assert tokens == pytest.approx(QUIET.cap / step_us * 1e6 * 30, rel=0.05)


def test_a_bound_is_above_its_share() -> None:
    assert upper(0, 300) == pytest.approx(1 - 0.05 ** (1 / 300))
    told = summary({"IMPROVED": [(1, 100), (3, 200)], "HARMED": [(0, 100)]})
    assert told["false_improved"] == 0.015
    assert told["false_improved_upper"] > 0.03

"""Dead letters of engines' own records: replayed and discarded like those of feedback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from signals.counts import WindowCounts
from signals.events import Counted
from tests.signals.making import T0_US, stamp
from tests.signals.on_the_bus import OnTheBus, discard, replay


@pytest.fixture
def line(tmp_path: Path) -> Iterator[OnTheBus]:
    made = OnTheBus(tmp_path)
    yield made
    made.close()


def test_a_letter_of_an_engine_stays_when_its_replay_fails_again(line: OnTheBus) -> None:
    """Its number was noted when it came; that does not make a duplicate of it."""
    said = [
        Counted(
            seq=seq,
            stamp=stamp(),
            at_us=T0_US,
            source="edge",
            intent="live",
            start_us=T0_US,
            revision=1,
            counts=WindowCounts(completed=completed),
        )
        for seq, completed in enumerate((3, 4))
    ]
    (_, offset) = line.take(*said)
    for attempts in (1, 2):
        outcome = line.order(replay(offset))
        assert (outcome.done, outcome.failed) == (0, 1)
        assert [(each.reason, each.attempts) for each in line.features.dead_letters()] == [
            ("conflict", attempts)
        ]
    assert line.features.producers()["engine"].duplicate == 0
    assert line.order(discard(offset)).done == 1
    assert line.features.dead_letters() == []

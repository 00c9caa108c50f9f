"""What the loop hands the plant model: seconds one by one, the announced layout, the contexts."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from benchmarks.queue_model import Request
from controller.fleet import Replica
from controller.looking import PLANT_POINTS, Looker
from controller.state import PlantInput
from engine.settings_in_force import Instant
from signals.events import MICROS, KvLayout, StepMoments
from signals.features.model import EngineSeen, RequestRow, SecondRow
from tests.loop.plant import START_S, Book, Rows
from tests.loop.world import declared

LAYOUT = KvLayout(layers=30, kv_heads=3, head_dim=64, value_bits=16, block_tokens=16, blocks=2048)
STEP = StepMoments(n=1, b=4, t=23_000, bb=16, bt=92_000, tt=529_000_000)


def now() -> Instant:
    return Instant(mono_s=0.0, wall_s=START_S)


class Announced(Rows):
    """A feature store whose engine has announced how it keeps keys and values."""

    def engines(self, target: str) -> Sequence[EngineSeen]:
        return [msgspec.structs.replace(one, kv=LAYOUT) for one in super().engines(target)]


def second(before_s: float, steps: StepMoments) -> SecondRow:
    to_us = round((START_S - before_s) * MICROS)
    return SecondRow(
        target="chat",
        replica="r0",
        incarnation="life1",
        from_us=to_us - MICROS,
        to_us=to_us,
        digest="d",
        trial="",
        block=-1,
        arm=None,
        output_tokens={},
        arrivals={"live": 1},
        offered_tokens={},
        waiting={},
        steps=steps,
        knobs={},
    )


def request(prompt: int, *, answered: int | None) -> RequestRow:
    row = Request("live", 100, 0).row("", -1)
    return msgspec.structs.replace(
        row,
        prompt_tokens=prompt,
        max_tokens=100,
        output_tokens=answered or 0,
        finished_us=None if answered is None else 5,
    )


def looked_at(rows: Rows) -> PlantInput:
    replica = Replica("book:", Book(now, "r0"), ours="ctl.", epoch=1, mono=lambda: 0.0)
    looker = Looker(declared(), rows, replica, lateness_s=2, rates=lambda name, intents: {})
    seen = looker.look(None, now_us=round(START_S * MICROS), mono_s=0.0, plant=True)
    assert seen.plant is not None
    return seen.plant


def test_seconds_come_one_by_one_and_idle_ones_are_left_out() -> None:
    rows = Rows(now)
    rows.second_rows = [second(3, STEP), second(2, StepMoments()), second(1, STEP)]
    plant = looked_at(rows)
    assert plant.points == (STEP, STEP)
    assert plant.moments.n == 2
    rows.second_rows = [second(n / 10, STEP) for n in range(PLANT_POINTS + 50)][::-1]
    assert len(looked_at(rows).points) == PLANT_POINTS


@pytest.mark.parametrize(("kind", "kv"), [(Rows, None), (Announced, LAYOUT)])
def test_the_layout_is_the_one_that_the_engine_announced(
    kind: type[Rows], kv: KvLayout | None
) -> None:
    assert looked_at(kind(now)).kv == kv


def test_the_context_is_that_of_the_longer_requests_and_unfinished_ones_count_whole() -> None:
    rows = Rows(now)
    assert looked_at(rows).context_tokens == 0.0
    rows.requests = [request(10, answered=n) for n in range(40)]
    assert looked_at(rows).context_tokens == 10 + 38
    rows.requests += [request(50, answered=None)] * 5
    assert looked_at(rows).context_tokens == 50 + 100

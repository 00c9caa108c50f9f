from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.plant.memory import Wall, block_bytes, predicted_bytes
from controller.plant.settings import PlantSettings
from signals.events import MICROS, KvLayout
from tests.plant.samples import LADDER

MODEL = PlantSettings()
HOUR_US = 3600 * MICROS
LAYOUT = KvLayout(layers=30, kv_heads=3, head_dim=64, value_bits=16, block_tokens=16, blocks=2048)

layouts = st.builds(
    KvLayout,
    layers=st.integers(1, 100),
    kv_heads=st.integers(1, 16),
    head_dim=st.sampled_from([32, 64, 80, 128]),
    value_bits=st.sampled_from([4, 8, 16]),
    block_tokens=st.sampled_from([1, 8, 16, 64]),
    blocks=st.integers(1, 100_000),
)
contexts = st.floats(1, 20_000)
lives = st.lists(
    st.tuples(st.sampled_from(LADDER), contexts, st.integers(0, 48 * HOUR_US)), max_size=6
)


def lived(layout: KvLayout, life: list[tuple[int, float, int]]) -> Wall:
    wall = Wall.of(layout, version="1")
    for cap, context, at_us in life:
        wall = wall.exhausted(cap=cap, context_tokens=context, now_us=at_us)
    return wall


def test_bytes_follow_the_layout_by_hand() -> None:
    assert block_bytes(LAYOUT) == 2 * 30 * 3 * 64 * 2 * 16
    assert predicted_bytes(LAYOUT, cap=3, context_tokens=17) == 3 * 2 * block_bytes(LAYOUT)
    half = msgspec.structs.replace(LAYOUT, value_bits=4)
    assert block_bytes(half) == block_bytes(LAYOUT) // 4


@given(layouts, lives, contexts, st.integers(0, 96 * HOUR_US))
def test_no_cap_that_is_admitted_predicts_above_the_wall(
    layout: KvLayout, life: list[tuple[int, float, int]], context: float, now_us: int
) -> None:
    wall = lived(layout, life)
    cap = wall.highest_cap(LADDER, context_tokens=context, now_us=now_us, model=MODEL)
    if cap is None:
        assert wall.refusal(LADDER[0], context_tokens=context, now_us=now_us, model=MODEL)
        return
    needed = predicted_bytes(layout, cap=cap, context_tokens=context)
    assert needed < wall.bytes <= wall.pool_bytes
    for hit, at_context, _ in life:
        assert needed < predicted_bytes(layout, cap=hit, context_tokens=at_context)
    assert not wall.refusal(cap, context_tokens=context, now_us=now_us, model=MODEL)


@given(layouts, lives, st.sampled_from(LADDER), contexts, contexts)
def test_an_exhaustion_never_raises_the_recommendation(
    layout: KvLayout,
    life: list[tuple[int, float, int]],
    cap: int,
    context: float,
    seen_after: float,
) -> None:
    """Not even where the requests that are left are short, for the long ones died."""
    now_us = 48 * HOUR_US
    wall = lived(layout, life)
    hit = wall.exhausted(cap=cap, context_tokens=context, now_us=now_us)
    before = wall.highest_cap(LADDER, context_tokens=context, now_us=now_us, model=MODEL)
    same = hit.highest_cap(LADDER, context_tokens=context, now_us=now_us, model=MODEL)
    after = hit.highest_cap(LADDER, context_tokens=seen_after, now_us=now_us, model=MODEL)
    assert (same or 0) <= (before or 0)
    assert (after or 0) <= (before or 0)
    assert (after or 0) < cap


@given(layouts, lives, st.integers(0, 48 * HOUR_US), st.integers(0, 1000 * HOUR_US))
def test_the_wall_stays_while_the_margin_narrows(
    layout: KvLayout, life: list[tuple[int, float, int]], now_us: int, later_us: int
) -> None:
    wall = lived(layout, [(8, 100.0, 0), *life])
    soon, late = wall.margin(now_us, MODEL), wall.margin(now_us + later_us, MODEL)
    assert MODEL.memory_margin <= late <= soon <= MODEL.memory_margin_after
    assert wall.allowed_bytes(now_us + later_us, MODEL) < wall.bytes
    assert wall.on(layout, version="1") == wall


def test_the_margin_halves_in_a_half_life() -> None:
    wall = Wall.of(LAYOUT, version="1").exhausted(cap=32, context_tokens=500, now_us=0)
    later_us = round(MODEL.memory_half_life_s * MICROS)
    halfway = (MODEL.memory_margin_after + MODEL.memory_margin) / 2
    assert wall.margin(0, MODEL) == pytest.approx(MODEL.memory_margin_after)
    assert wall.margin(later_us, MODEL) == pytest.approx(halfway)
    assert Wall.of(LAYOUT, version="1").margin(0, MODEL) == MODEL.memory_margin


def test_another_layout_or_version_begins_a_new_wall() -> None:
    wall = Wall.of(LAYOUT, version="1").exhausted(cap=2, context_tokens=50, now_us=5)
    twice = msgspec.structs.replace(LAYOUT, blocks=4096)
    for fresh in (wall.on(twice, version="1"), wall.on(LAYOUT, version="2")):
        assert fresh.exhausted_bytes is None
        assert fresh.bytes == fresh.pool_bytes
    assert wall.on(LAYOUT, version="1") is wall


def test_weights_and_reserve_come_off_what_the_device_has() -> None:
    pool = LAYOUT.blocks * block_bytes(LAYOUT)
    tight = Wall.of(LAYOUT, version="1", device_bytes=pool, taken_bytes=pool // 4)
    assert tight.bytes == pool - pool // 4
    assert Wall.of(LAYOUT, version="1", device_bytes=1, taken_bytes=2).bytes == 0


def test_the_refusal_says_what_it_would_take_and_what_is_there() -> None:
    wall = Wall.of(LAYOUT, version="1").exhausted(cap=32, context_tokens=512, now_us=0)
    words = wall.refusal(32, context_tokens=512, now_us=0, model=MODEL)
    assert words.startswith("32 sequences of 512 tokens would take 360 MiB of KV memory")
    assert "252 MiB is allowed, 30% below the wall at 360 MiB" in words
    assert "memory was exhausted before" in words


def test_a_wall_is_stored_and_comes_back_the_same() -> None:
    wall = Wall.of(LAYOUT, version="1").exhausted(cap=32, context_tokens=500.5, now_us=7)
    assert msgspec.json.decode(msgspec.json.encode(wall), type=Wall) == wall

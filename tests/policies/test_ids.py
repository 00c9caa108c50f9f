"""Ids rise with time and never meet."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.ids import new_id
from signals.ids import uuid7

times = st.integers(0, 2**48 * 1000 - 1)
random = st.binary(min_size=8, max_size=8)


@given(times, random)
def test_an_id_is_a_version_7_uuid_with_its_millisecond(now_us: int, chance: bytes) -> None:
    made = uuid.UUID(uuid7(now_us, chance))
    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    assert made.int >> 80 == now_us // 1000


@given(times, times, random, random)
def test_ids_of_different_microseconds_sort_by_time(
    one_us: int, two_us: int, chance: bytes, other: bytes
) -> None:
    one, two = new_id("pol", one_us, chance), new_id("pol", two_us, other)
    if one_us != two_us:
        assert (one < two) == (one_us < two_us)
    assert one.startswith("pol_")
    assert len(one) == 36


@given(times, random, random)
def test_chance_tells_ids_of_one_moment_apart(now_us: int, chance: bytes, other: bytes) -> None:
    same = int.from_bytes(chance, "big") % 2**62 == int.from_bytes(other, "big") % 2**62
    assert (uuid7(now_us, chance) == uuid7(now_us, other)) == same


def test_too_little_chance_is_refused() -> None:
    with pytest.raises(ValueError, match="8 random bytes, not 7"):
        uuid7(0, bytes(7))

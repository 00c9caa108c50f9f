"""Blocks: none is lost, none is held twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.embedded.kv import BlockPool, Lease, blocks_for
from signals.errors import Broken

ACTS = st.lists(st.tuples(st.sampled_from("lgr"), st.integers(1, 80)), max_size=60)


@given(acts=ACTS)
def test_free_and_held_blocks_are_always_the_whole_pool(acts: list[tuple[str, int]]) -> None:
    pool = BlockPool(total=12, slots=4, context=96)
    leases: list[Lease] = []
    for act, number in acts:
        if act == "l" and (new := pool.lease(number)) is not None:
            assert new.tokens >= number
            leases.append(new)
        elif act == "g" and leases and (old := leases[number % len(leases)]).tokens < 96:
            had = pool.free
            assert pool.grow(old) == (had > 0)
        elif act == "r" and leases:
            pool.release(leases.pop(number % len(leases)))
        pool.check(leases)
        assert pool.used == sum(len(one.blocks) for one in leases)
        assert len({one.slot for one in leases}) == len(leases) <= 4
        for one in leases:
            assert pool.tables[one.slot, : len(one.blocks)].tolist() == one.blocks


def test_a_lease_that_does_not_fit_takes_nothing() -> None:
    pool = BlockPool(total=4, slots=2, context=64)
    assert pool.lease(65) is None
    assert pool.free == 4
    first, second = pool.lease(16), pool.lease(16)
    assert first is not None and second is not None
    assert pool.lease(1) is None, "no slot is left"
    assert pool.free == 2


def test_a_leak_is_broken_not_logged() -> None:
    pool = BlockPool(total=4, slots=2, context=64)
    lease = pool.lease(40)
    assert lease is not None
    with pytest.raises(Broken, match="1 free \\+ 0 held of 4"):
        pool.check([])


def test_a_block_given_back_twice_is_broken() -> None:
    pool = BlockPool(total=4, slots=2, context=64)
    lease = pool.lease(20)
    assert lease is not None
    stolen = list(lease.blocks)
    pool.release(lease)
    lease.blocks = stolen
    with pytest.raises(Broken, match="leaked"):
        pool.check([lease])


def test_blocks_are_counted_up() -> None:
    assert [blocks_for(n) for n in (1, 15, 16, 17, 32, 33)] == [1, 1, 1, 2, 2, 3]

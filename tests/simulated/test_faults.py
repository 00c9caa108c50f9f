"""What goes wrong, and what is seen of it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from engine.simulated.faults import (
    MEMORY_EXHAUSTED,
    ClockSkew,
    MemoryShrinks,
    Refuses,
    Restart,
    Slowdown,
    Stall,
    TelemetryLoss,
)
from signals.errors import Rejected, Unavailable
from tests.simulated.loads import SECOND_US, SPEC, cap, change, chats, fleet, mixed

END_US = 40 * SECOND_US
HALF_US = END_US // 2


def test_more_memory_than_there_is_kills_the_engine_which_comes_back_having_forgotten() -> None:
    spec = replace(SPEC, kv_blocks=1000, memory_blocks=150, restart_us=5 * SECOND_US)
    one = fleet(mixed(1, per_s=10.0), spec)
    replica = one.replica("r0")
    first = change(replica, cap(4))
    one.run(END_US)
    assert replica.deaths == [], "four sequences fit"
    change(replica, cap(64))
    one.run(2 * END_US)
    assert {cause for _, cause in replica.deaths} == {MEMORY_EXHAUSTED}
    assert replica.incarnation != first.incarnation
    rows = one.requests(-1, one.now_us)
    assert {row.error for row in rows if row.status == "error"} == {MEMORY_EXHAUSTED, "engine away"}
    if replica.up:
        assert replica.view().settings[0].value == SPEC.capacity_active


def test_memory_that_shrinks_under_a_running_engine_is_the_same_wall() -> None:
    fault = MemoryShrinks(replica="r0", at_us=HALF_US, blocks=20)
    one = fleet(mixed(1, per_s=10.0), faults=[fault])
    one.run(END_US)
    ((at_us, cause), *_) = one.replica("r0").deaths
    assert cause == MEMORY_EXHAUSTED
    assert HALF_US <= at_us < HALF_US + SECOND_US


def test_a_restart_is_away_for_its_time_and_the_router_passes_it_by() -> None:
    fault = Restart(replica="r0", at_us=HALF_US, down_us=10 * SECOND_US)
    one = fleet(mixed(1, per_s=8.0), SPEC, SPEC, faults=[fault])
    one.run(HALF_US + SECOND_US)
    replica = one.replica("r0")
    with pytest.raises(Unavailable, match="away"):
        replica.view()
    with pytest.raises(Unavailable, match="away"):
        change(replica, cap(3))
    one.run(END_US)
    assert replica.up
    rows = one.requests(HALF_US + SECOND_US, HALF_US + 9 * SECOND_US)
    assert {row.replica for row in rows} == {"r1"}
    lives = {row.incarnation for row in one.requests(-1, END_US) if row.replica == "r0"}
    assert len(lives) == 2
    assert replica.incarnation in lives


def test_nothing_happens_during_a_stall_and_what_came_waits() -> None:
    stall = Stall(replica="r0", at_us=HALF_US, for_us=3 * SECOND_US)
    one = fleet(chats(20.5), faults=[stall])
    one.run(END_US)
    (row,) = one.requests(-1, END_US)
    assert 2_500_000 <= (row.ttft_us or 0) < 2_600_000
    assert row.good is False


def test_a_slower_engine_takes_longer_from_then_on() -> None:
    fault = Slowdown(replica="r0", at_us=HALF_US, factor=2.0)
    one = fleet(chats(1.0, 30.0), faults=[fault])
    one.run(END_US)
    before, after = one.requests(-1, END_US)
    assert after.tpot_us == 2 * (before.tpot_us or 0)


@pytest.mark.parametrize(("rejects", "error"), [(False, Unavailable), (True, Rejected)])
def test_a_refusing_replica_keeps_its_settings(rejects: bool, error: type[Exception]) -> None:
    fault = Refuses(replica="r0", at_us=0, for_us=HALF_US, rejects=rejects)
    one = fleet(chats(1.0), faults=[fault])
    replica = one.replica("r0")
    with pytest.raises(error):
        change(replica, cap(3))
    assert replica.view().version == 0
    one.run(END_US)
    assert change(replica, cap(3)).version == 1


def test_lost_records_are_missing_not_zero_and_their_time_is_incomplete() -> None:
    fault = TelemetryLoss(replica="r0", at_us=HALF_US, for_us=5 * SECOND_US)
    whole, lossy = fleet(mixed(1)), fleet(mixed(1), faults=[fault])
    whole.run(END_US)
    lossy.run(END_US)
    assert lossy.incomplete(HALF_US, HALF_US + SECOND_US)
    assert not lossy.incomplete(-1, HALF_US - 1)
    assert not lossy.incomplete(HALF_US + 5 * SECOND_US, END_US)
    assert not whole.incomplete(-1, END_US)
    assert lossy.requests(-1, HALF_US - 5 * SECOND_US) == whole.requests(
        -1, HALF_US - 5 * SECOND_US
    )
    assert len(lossy.requests(-1, END_US)) < len(whole.requests(-1, END_US))
    seqs = [record.seq for record in lossy.records(-1, END_US)]
    assert seqs == sorted(seqs)
    assert len(seqs) < len(whole.records(-1, END_US))
    assert [seen.gaps for seen in lossy.engines()] == [1]


def test_a_skewed_clock_moves_what_is_told_and_no_duration() -> None:
    fault = ClockSkew(replica="r0", at_us=HALF_US, skew_us=2 * SECOND_US)
    right, skewed = fleet(mixed(1)), fleet(mixed(1), faults=[fault])
    right.run(END_US)
    skewed.run(END_US)
    pairs = zip(right.requests(-1, END_US), skewed.requests(-1, END_US), strict=True)
    for one, other in pairs:
        moved_us = 2 * SECOND_US if one.arrival_us >= HALF_US else 0
        assert other.arrival_us == one.arrival_us + moved_us
        assert (other.ttft_us, other.tpot_us) == (one.ttft_us, one.tpot_us)
    view = skewed.replica("r0").view()
    assert view.engine_time == pytest.approx(skewed.replica("r0").at_us / 1e6 + 2.0)
    assert skewed.engines()[0].clock.most_ahead_ms == 2000.0

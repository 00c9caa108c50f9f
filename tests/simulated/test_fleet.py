"""Lives of simulated replicas: nothing is lost, bounds hold, the same seed lives the same life."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from engine.simulated.faults import Fault, MemoryShrinks, Restart, Slowdown, Stall
from engine.simulated.fleet import Fleet, Router
from engine.simulated.offered import Offered
from policies.runtime_config import SettingChange
from signals.errors import Rejected
from tests.simulated.loads import SECOND_US, SPEC, cap, change, chats, fleet, mixed, until

NOISY = replace(SPEC, step_times=replace(SPEC.step_times, noise_sd=0.1, per_context_us=0.2))
SMALL = replace(SPEC, kv_blocks=150)
END_US = 20 * SECOND_US


def told(one: Fleet) -> bytes:
    """All that a fleet tells."""
    until_us = one.now_us
    return msgspec.json.encode([one.requests(-1, until_us), one.records(-1, until_us)])


FAULTS = st.lists(
    st.one_of(
        st.builds(Slowdown, replica=st.just("r0"), at_us=st.integers(0, END_US), factor=st.just(3)),
        st.builds(
            Stall,
            replica=st.just("r0"),
            at_us=st.integers(0, END_US),
            for_us=st.integers(1, SECOND_US),
        ),
        st.builds(
            Restart,
            replica=st.sampled_from(["r0", "r1"]),
            at_us=st.integers(0, END_US),
            down_us=st.integers(1, 5 * SECOND_US),
        ),
        st.builds(
            MemoryShrinks,
            replica=st.just("r1"),
            at_us=st.integers(0, END_US),
            blocks=st.integers(10, 150),
        ),
    ),
    max_size=4,
)


@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 1000),
    router=st.sampled_from(["random", "least_loaded"]),
    faults=FAULTS,
    cut_us=st.integers(1, END_US - 1),
)
def test_every_offered_request_ends_once_or_is_still_there_however_the_life_is_cut(
    seed: int, router: Router, faults: list[Fault], cut_us: int
) -> None:
    def living() -> Fleet:
        arrivals = mixed(seed, per_s=6.0, prompt=100)
        return fleet(arrivals, SMALL, NOISY, seed=seed, router=router, faults=faults)

    whole, cut = living(), living()
    whole.run(END_US)
    cut.run(cut_us)
    cut.run(END_US)
    assert told(whole) == told(cut)
    rows = whole.requests(-1, END_US)
    assert len(rows) == whole.offered == len({row.request_id for row in rows})
    open_by = {int(row.request_id[-12:], 16): row for row in rows if row.finished_us is None}
    replicas = [whole.replica(name) for name in whole.replicas]
    left = {visit.number for replica in replicas for visit in replica.lines.everybody()}
    assert left <= set(open_by)
    stands_us = {replica.name: replica.at_us for replica in replicas}
    whole.run(END_US + 2 * SECOND_US)
    later = {row.request_id: row for row in whole.requests(-1, END_US)}
    for number in set(open_by) - left:  # ended by the step that was under way
        row = later[open_by[number].request_id]
        assert END_US <= (row.finished_us or 0) <= round(stands_us[row.replica])
    ended = [row for row in rows if row.status == "ok"]
    assert all(row.output_tokens == row.max_tokens for row in ended)


def test_all_requests_end_when_no_more_come_and_every_token_is_told_once() -> None:
    one = fleet(until(mixed(3, per_s=10.0), 20.0), SMALL, NOISY)
    one.run(300 * SECOND_US)
    rows = one.requests(-1, one.now_us)
    served = [row for row in rows if row.status == "ok"]
    refused = [row for row in rows if row.status == "rejected"]
    assert len(served) + len(refused) == one.offered > 100
    seconds = one.seconds(-1, one.now_us)
    drawn: Counter[str] = Counter()
    for second in seconds:
        drawn.update(second.output_tokens)
    expected: Counter[str] = Counter()
    for row in served:
        expected[row.intent] += row.output_tokens
    assert drawn == expected
    assert sum(sum(second.arrivals.values()) for second in seconds) == one.offered
    assert all(one.replica(name).lines.used == 0 for name in one.replicas)


def test_kv_stays_within_its_capacity_and_the_cap_is_respected_at_every_boundary() -> None:
    spec = replace(SPEC, kv_blocks=80, boot_active_cap=12)
    one = fleet(mixed(5, per_s=30.0, prompt=40), spec)
    replica, most = one.replica("r0"), 0
    for step in range(1, 800):
        one.run(step * 20_000)
        assert replica.lines.used <= spec.kv_blocks
        assert len(replica.lines.running) <= 12
        most = max(most, replica.lines.used)
    assert most > 0.9 * spec.kv_blocks
    assert replica.lines.preempted > 0


def test_requests_of_a_class_are_admitted_in_order_of_arrival_and_interactive_ones_first() -> None:
    one = fleet(mixed(7, per_s=5.0), replace(SPEC, boot_active_cap=3))
    one.run(3 * END_US)
    rows = [row for row in one.requests(-1, END_US) if row.queue_us is not None]
    mean_us = {}
    for class_ in ("interactive", "batch"):
        of_class = [row for row in rows if row.class_ == class_]
        admitted = [row.arrival_us + (row.queue_us or 0) for row in of_class]
        assert admitted == sorted(admitted)
        mean_us[class_] = sum(row.queue_us or 0 for row in of_class) / len(of_class)
    assert 3 * mean_us["interactive"] < mean_us["batch"]


def test_another_seed_lives_another_life() -> None:
    lives = []
    for seed in (1, 1, 2):
        one = fleet(mixed(1), NOISY, NOISY, seed=seed)
        one.run(END_US)
        lives.append(told(one))
    assert lives[0] == lives[1] != lives[2]


def test_least_loaded_routing_waits_less_than_random_routing() -> None:
    waited = {}
    for router in ("random", "least_loaded"):
        one = fleet(
            mixed(2, per_s=14.0),
            *[replace(SPEC, boot_active_cap=6)] * 3,
            router="random" if router == "random" else "least_loaded",
        )
        one.run(3 * END_US)
        rows = one.requests(-1, 2 * END_US)
        waited[router] = sum(row.ttft_us or 0 for row in rows) / len(rows)
        assert len({row.replica for row in rows}) == 3
    assert waited["least_loaded"] < waited["random"]


def shared(at_s: float, prefix: tuple[int, ...]) -> Offered:
    return Offered(
        arrival_s=at_s,
        intent="live",
        class_="interactive",
        prompt_tokens=1100,
        output_tokens=20,
        prefix=prefix,
    )


def test_a_retained_prefix_is_not_computed_again_and_a_lowered_retention_forgets_it() -> None:
    spec = replace(SPEC, capacity_retention=64)
    asks = [shared(at_s, (1, 2, int(at_s) + 100)) for at_s in (0.0, 5.0, 10.0, 15.0)]
    one = fleet(iter(asks), spec)
    one.run(9 * SECOND_US)
    replica = one.replica("r0")
    assert replica.lines.used == 64, "two blocks of 512 tokens stay, in 32 KV blocks each"
    change(replica, SettingChange(knob="prefix_retention_blocks", value=0))
    assert replica.lines.used == 0
    one.run(30 * SECOND_US)
    ttfts = [row.ttft_us or 0 for row in one.requests(-1, one.now_us)]
    assert ttfts[1] < 0.2 * ttfts[0]
    assert ttfts[2] == pytest.approx(ttfts[0], rel=0.01) == ttfts[3]
    hits = [record.prefix_hits for record in one.records(-1, one.now_us)]
    assert sum(hits) == 1024


def test_retained_prefixes_yield_to_a_running_sequence_that_must_grow() -> None:
    spec = replace(SPEC, kv_blocks=100, capacity_retention=64)
    later = chats(5.0, prompt=500, output=900)
    one = fleet(iter([shared(0.0, (1, 2)), *later]), spec)
    one.run(60 * SECOND_US)
    rows = one.requests(-1, one.now_us)
    assert [row.status for row in rows] == ["ok", "ok"]
    assert rows[1].preemptions == 0
    assert one.replica("r0").lines.used <= 64


def test_idle_hours_are_told_second_by_second_and_cost_next_to_nothing() -> None:
    one = fleet(chats(0.0, 3600.0))
    one.run(3700 * SECOND_US)
    seconds = one.seconds(-1, one.now_us)
    assert all(0 < second.to_us - second.from_us < 1.1 * SECOND_US for second in seconds)
    assert sum(second.to_us - second.from_us for second in seconds) > 3698 * SECOND_US
    assert one.replica("r0").lines.steps == 200


def test_step_moments_give_back_the_costs_of_a_step() -> None:
    one = fleet(mixed(4, per_s=8.0), SPEC)
    one.run(END_US)
    steps = [second.steps for second in one.seconds(-1, END_US)]
    time_us = sum(moments.t for moments in steps)
    predicted = sum(10_000 * m.n + 500 * m.b + 50 * m.f for m in steps)
    assert time_us == pytest.approx(predicted, rel=1e-4)


def test_noise_has_a_mean_of_one_and_the_spread_that_was_asked_for() -> None:
    times = replace(SPEC.step_times, noise_sd=0.2)
    one = fleet(chats(0.0, prompt=1, output=20_000), replace(SPEC, step_times=times))
    one.run(400 * SECOND_US)
    rows = [second.steps for second in one.seconds(-1, one.now_us)]
    n, t, tt = (sum(getattr(steps, name) for steps in rows) for name in ("n", "t", "tt"))
    mean_us = t / n
    assert mean_us == pytest.approx(10_500, rel=0.01)
    assert (tt / n - mean_us**2) ** 0.5 / mean_us == pytest.approx(0.2, rel=0.05)


def test_what_is_forgotten_is_gone_and_the_rest_goes_on() -> None:
    one = fleet(mixed(4), SPEC)
    one.run(END_US)
    kept = one.requests(END_US // 2, END_US)
    one.forget(END_US // 2)
    assert one.requests(-1, END_US) == kept
    one.run(2 * END_US)
    assert one.requests(END_US, 2 * END_US)


def test_a_fault_of_a_replica_that_is_not_there_is_refused() -> None:
    with pytest.raises(Rejected, match="no such replica"):
        fleet(chats(1.0), faults=[Stall(replica="r9", at_us=0, for_us=1)])


def test_a_request_that_can_never_fit_is_rejected_at_once() -> None:
    one = fleet(chats(1.0, prompt=5000), SMALL)
    one.run(2 * SECOND_US)
    (row,) = one.requests(-1, one.now_us)
    assert (row.status, row.good) == ("rejected", False)


def test_a_setting_is_seen_in_the_seconds_and_stamps_that_follow_it_and_in_no_earlier_one() -> None:
    one = fleet(mixed(4), SPEC)
    one.run(END_US)
    applied = change(one.replica("r0"), cap(2, policy_id="p"))
    at_us = round((applied.applied_at or 0) * SECOND_US)
    one.run(2 * END_US)
    for second in one.seconds(-1, 2 * END_US):
        expected = SPEC.capacity_active if second.to_us <= at_us else 2
        assert second.knobs["active_cap"] == expected
        assert not second.from_us < at_us < second.to_us
    rows = one.requests(-1, 2 * END_US)
    assert all((row.policies == ("p",)) == (row.arrival_us >= at_us) for row in rows)

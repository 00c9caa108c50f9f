"""A crossover's block: both arms at once, and what a slower half of the replicas does to d."""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec
import pytest

from controller.judge.values import block_values, crossover_values, unit_differences
from controller.trials import Block, BlockValues, TrialPlan, arm_of, arms, split_of
from policies.runtime_config import Arm
from signals.features.model import RequestRow, SecondRow
from tests.judge.builders import BEGAN_US, PLAN, block, plan, request, second

REPLICAS = ("r0", "r1", "r2", "r3")


def crossed(seed: int = 7, **changes: object) -> TrialPlan:
    """The builders' plan as a crossover of four replicas."""
    split = split_of(seed, REPLICAS)
    assert split is not None
    return plan(design="crossover", split=split, seed=seed, **changes)


def both(found: dict[Arm, BlockValues] | str) -> tuple[BlockValues, BlockValues]:
    assert not isinstance(found, str), found
    return found["baseline"], found["candidate"]


def of_replica(row: RequestRow, replica: str, arm: Arm) -> RequestRow:
    return msgspec.structs.replace(row, replica=replica, arm=arm)


def ticks(
    replica: str, arm: Arm, tokens: int, waiting: Sequence[int] = (5,) * 24
) -> list[SecondRow]:
    """One second after another from the washout's end to the block's."""
    made = [
        second(7.0 + n, tokens={"batch": tokens}, waiting={"batch": queue})
        for n, queue in enumerate(waiting)
    ]
    return [msgspec.structs.replace(one, replica=replica, arm=arm) for one in made]


def test_an_arms_requests_are_pooled_whichever_replica_had_them() -> None:
    """Three of r0's four and none of r1's one are good: 3 of 5, not the mean of .75 and 0."""
    rows = [of_replica(request(10.0 + n, good=n > 0), "r0", "candidate") for n in range(4)]
    rows += [of_replica(request(15.0, good=False), "r1", "candidate")]
    rows += [of_replica(request(12.0), "r2", "baseline")]
    base, candidate = both(crossover_values(crossed(), block(), rows, []))
    assert candidate.values["attainment:live"] == pytest.approx(3 / 5)
    assert (base.values["attainment:live"], base.requests, candidate.requests) == (1.0, 1, 5)


def test_an_arms_token_rate_is_that_of_one_replica_while_it_had_backlog() -> None:
    rows = [of_replica(request(10.0), "r0", arm) for arm in ("baseline", "candidate")]
    seconds = [
        *ticks("r0", "candidate", 300),
        *ticks("r1", "candidate", 100),
        *ticks("r2", "baseline", 100),
        *ticks("r3", "baseline", 900, waiting=(0,) * 24),
    ]
    base, candidate = both(crossover_values(crossed(), block(), rows, seconds))
    assert candidate.values["tokens_per_s:batch"] == pytest.approx(200.0)
    assert base.values["tokens_per_s:batch"] == pytest.approx(100.0)


def test_each_arm_is_what_a_block_of_its_own_would_show() -> None:
    rows = [of_replica(request(7.0 + n / 2, good=n % 3 > 0), "r0", "baseline") for n in range(38)]
    seconds = ticks("r0", "baseline", 200)
    other = [of_replica(request(8.0), "r2", "candidate")]
    base, _ = both(crossover_values(crossed(), block(), [*rows, *other], seconds))
    assert base == block_values(plan(), block(), rows, seconds)


def test_a_block_with_too_few_arrivals_in_one_arm_counts_for_neither() -> None:
    rows = [of_replica(request(10.0 + n), "r0", "baseline") for n in range(5)]
    found = crossover_values(crossed(min_requests=3), block(), rows, [])
    assert found == "candidate: 0 counted arrivals, fewer than the 3 planned"


def test_a_block_that_is_void_or_was_never_read_back_says_so() -> None:
    void, unread = block(void="engine restarted"), block(began_us=None)
    assert crossover_values(crossed(), void, [], []) == "engine restarted"
    assert crossover_values(crossed(), unread, [], []) == (
        "the block's settings were never read back"
    )


def test_rows_without_an_arm_or_of_another_block_are_nobodys() -> None:
    rows = [of_replica(request(10.0), "r0", arm) for arm in ("baseline", "candidate")]
    strays = [
        msgspec.structs.replace(request(11.0), arm=None),
        msgspec.structs.replace(request(11.0), block=5),
        msgspec.structs.replace(request(11.0), trial="tri_0"),
    ]
    base, candidate = both(crossover_values(crossed(), block(), [*rows, *strays], []))
    assert (base.requests, candidate.requests) == (1, 1)


@pytest.mark.parametrize("n", range(9))
def test_halves_are_equal_disjoint_and_leave_out_at_most_one(n: int) -> None:
    names = [f"r{i}" for i in range(n)]
    found = split_of(3, names)
    if n < 2:
        assert found is None
        return
    assert found is not None
    first, second_half = found
    assert len(first) == len(second_half) == n // 2
    assert set(first).isdisjoint(second_half) and {*first, *second_half} <= set(names)
    assert found == split_of(3, reversed(names)), "whatever the order in which they are told"


def test_the_coin_says_which_half_has_the_candidate_and_nobody_else_has_an_arm() -> None:
    planned = crossed()
    seen: set[tuple[Arm | None, Arm | None]] = set()
    for unit in range(32):
        one = Block(index=unit, arm=arms(planned.seed, unit)[0], began_us=BEGAN_US)
        halves = [{arm_of(planned, one, name) for name in half} for half in planned.split]
        assert [len(half) for half in halves] == [1, 1], "a half moves as one"
        seen.add((halves[0].pop(), halves[1].pop()))
        assert arm_of(planned, one, "r9") is None
    assert seen == {("baseline", "candidate"), ("candidate", "baseline")}


def test_a_switchback_moves_every_replica() -> None:
    assert {arm_of(PLAN, block(arm="candidate"), name) for name in REPLICAS} == {"candidate"}


def test_a_replica_that_is_3_percent_slower_moves_no_mean_over_many_coins() -> None:
    """Nothing differs between the arms but which replicas they have."""
    seed, chance = 11, random.Random(5)
    planned, units = crossed(seed=seed), 400
    slow = planned.split[0][0]
    ds = [_unit_d(planned, unit, slow, chance) for unit in range(units)]
    mean = sum(ds) / units
    typical = sum(abs(d) for d in ds) / units
    assert typical > 0.005, "the slower replica does show in every single unit"
    error = (sum((d - mean) ** 2 for d in ds) / (units - 1) / units) ** 0.5
    assert abs(mean) < 3 * error, f"seed {seed}: mean {mean:+.5f}, standard error {error:.5f}"
    assert abs(mean) < typical / 5


def _unit_d(planned: TrialPlan, unit: int, slow: str, chance: random.Random) -> float:
    one = block(index=unit, arm=arms(planned.seed, unit)[0])
    load = chance.uniform(0.6, 1.4)
    rows, seconds = [], []
    for name in planned.members:
        arm, slower = arm_of(planned, one, name), 1.03 if name == slow else 1.0
        assert arm is not None
        rows += [
            msgspec.structs.replace(
                of_replica(request(7.0 + n, ttft_s=0.4 * load * slower), name, arm), block=unit
            )
            for n in range(18)
        ]
        seconds += [
            msgspec.structs.replace(tick, block=unit)
            for tick in ticks(name, arm, round(300 * load / slower))
        ]
    base, candidate = both(crossover_values(planned, one, rows, seconds))
    return unit_differences(base.values, candidate.values)["neg_log_ttft:live"]

"""The table itself, held to what DESIGN says of it."""

from __future__ import annotations

import itertools

import pytest

from policies.lifecycle import FINAL, LAYERED, MOVES, ON_TRIAL, STATES, State, check_move
from signals.errors import Conflict

PAIRS = list(itertools.product(STATES, STATES))


def test_every_pair_beside_the_table_is_a_conflict_that_says_what_is_allowed() -> None:
    refused = 0
    for before, after in PAIRS:
        if after in MOVES[before]:
            check_move("pol_1", before, after)
            continue
        with pytest.raises(Conflict) as conflict:
            check_move("pol_1", before, after)
        refused += 1
        assert conflict.value.status == 409
        assert (conflict.value.field, conflict.value.value) == ("state", after)
        assert f"pol_1 is {before}; it cannot become {after}" in str(conflict.value)
        for allowed in MOVES[before]:
            assert allowed in str(conflict.value.allowed)
    assert refused == len(PAIRS) - sum(map(len, MOVES.values())) == 225


def test_every_state_is_reached_from_proposed_and_every_life_can_end() -> None:
    assert reached("proposed") == set(STATES)
    for state in STATES:
        assert reached(state) & FINAL, state


def reached(start: State) -> set[State]:
    found, waiting = {start}, [start]
    while waiting:
        new = set(MOVES[waiting.pop()]) - found
        found |= new
        waiting += new
    return found


def test_no_state_moves_to_itself_and_no_move_is_listed_twice() -> None:
    for before, after in MOVES.items():
        assert before not in after
        assert len(set(after)) == len(after)


def test_what_was_in_the_engine_ends_only_by_way_of_a_read_back() -> None:
    """From a state that may be in the engine, an end is reached through reverting alone."""
    for state in LAYERED - {"kept"}:
        assert not set(MOVES[state]) & FINAL, state
    assert set(MOVES["kept"]) & FINAL == {"superseded"}
    assert ON_TRIAL < LAYERED


def test_final_states_are_those_without_a_move() -> None:
    assert {
        "reverted",
        "rejected",
        "expired",
        "superseded",
        "failed",
        "not_applicable",
        "observed",
    } == FINAL

"""A policy kept provisionally, in one step: confirmed, taken back, and what stands on it."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from controller.asking import BLOCKS_A_LOOK, AgedReader
from controller.loop import step
from controller.rules.firing import Timers
from controller.state import Asked, BlockRows, LoopState, Seen, Step
from controller.store.port import Control
from controller.trial import blocks
from controller.trials import AgedPlan, Trial
from engine.settings_in_force import Instant
from policies.policy import Policy
from signals.events import MICROS
from signals.features.model import Outcome, RequestRow
from tests.judge.builders import at_us, plan, request
from tests.judge.builders import trial as judged_trial
from tests.loop import test_desired
from tests.loop.plant import Rows
from tests.loop.world import declared

COPIED = AgedPlan(metric="copied", margin=0.3, age_s=60, low=0.0, high=1.0)
NOW_US = at_us(10_000.0)


def kept(**changes: object) -> Policy:
    """Kept on the engine's figures, to be confirmed."""
    found = test_desired.policy("pol_1", "kept", 16)
    return msgspec.structs.replace(
        found, trial="tri_1", provisional=True, confirmed_by=("copied",), **changes
    )


def its_trial(units: int = 14) -> Trial:
    return judged_trial([0.3] * units, plan=plan(aged=(COPIED,)), state="done")


def said_in(trial: Trial, liked: dict[str, int]) -> dict[int, BlockRows]:
    """Ten requests in each block; so many of an arm's are copied."""
    found: dict[int, BlockRows] = {}
    for block in (block for unit in trial.units for block in unit.blocks):
        rows = [
            request(10.0 + n, arm=block.arm, block=block.index, request_id=f"{block.index}.{n}")
            for n in range(10)
        ]
        said = [copied(row) for row in rows[: liked[block.arm]]]
        found[block.index] = BlockRows(
            requests=tuple(rows), seconds=(), incomplete=False, outcomes=tuple(said)
        )
    return found


def copied(row: RequestRow) -> Outcome:
    return Outcome(
        request_id=row.request_id,
        metric="copied",
        value=1.0,
        time_us=row.arrival_us + 30 * MICROS,
        producer="shop",
        event_id=row.request_id,
    )


def stepped(
    rows: dict[int, BlockRows], *others: Policy, running: Trial | None = None, hold: bool = False
) -> Step:
    state = LoopState(
        declared=declared(),
        policies=(kept(), *others),
        trial=running,
        control=Control(target="chat", hold=hold),
        modes={},
        baseline={},
        overrides=(),
        last_reads={},
        timers=Timers(),
        ours="ctl.",
        asked=Asked(confirming={"pol_1": its_trial()}),
    )
    seen = Seen(observed=None, features={}, cursor=0, closed_us=NOW_US, aged={"pol_1": rows})
    return step(state, seen, now_us=NOW_US, rng=Random(0))


def test_what_users_like_as_much_is_confirmed_with_one_entry_and_stays() -> None:
    done = stepped(said_in(its_trial(), {"baseline": 5, "candidate": 5}))
    assert done.moves == ()
    (amend,) = done.amends
    assert (amend.policy.id, amend.what) == ("pol_1", "confirmed")
    assert amend.changes == {"provisional": False, "confirm_us": NOW_US}
    (fact,) = done.facts
    assert (fact.action, fact.details["found"]) == ("trial.feedback", "shown")


@pytest.mark.parametrize(
    ("liked", "verdict", "words"),
    [
        ({"baseline": 8, "candidate": 1}, "HARMED", "HARMED: copied -0.7"),
        ({"baseline": 8, "candidate": 5}, "HARMED", "it is worse"),
        ({"baseline": 0, "candidate": 0}, "NO_DATA", "no unit has feedback in both arms"),
    ],
)
def test_what_users_like_less_or_nobody_speaks_of_goes_back(
    liked: dict[str, int], verdict: str, words: str
) -> None:
    rows = said_in(its_trial(), liked)
    if verdict == "NO_DATA":
        rows = {at: msgspec.structs.replace(one, requests=()) for at, one in rows.items()}
    (move,) = stepped(rows).moves
    assert (move.after, move.changes["verdict"]) == ("reverting", verdict)
    assert words in move.changes["cause"]
    assert move.changes["provisional"] is False


def test_under_a_hold_nothing_is_confirmed_or_taken_back() -> None:
    done = stepped(said_in(its_trial(), {"baseline": 8, "candidate": 1}), hold=True)
    assert (done.moves, done.amends) == ((), ())


def above(knob: str) -> tuple[Policy, Trial]:
    """Another policy on trial meanwhile, in its second unit."""
    found = test_desired.policy("pol_2", "on_trial", 32)
    trial = judged_trial([0.1], plan=plan(id="tri_2", policy_id="pol_2", knob=knob))
    running = blocks.begin(trial, now_us=NOW_US - MICROS)
    return msgspec.structs.replace(found, knob=knob, trial="tri_2"), running


def test_a_trial_on_the_same_place_ends_undecided_for_its_ground_is_gone() -> None:
    policy, running = above("active_cap")
    done = stepped(said_in(its_trial(), {"baseline": 8, "candidate": 1}), policy, running=running)
    assert [(one.policy.id, one.changes["verdict"]) for one in done.moves] == [
        ("pol_1", "HARMED"),
        ("pol_2", "INCONCLUSIVE"),
    ]
    assert done.trial is not None and done.trial.state == "done"


def test_a_trial_elsewhere_begins_its_unit_anew() -> None:
    policy, running = above("step_token_budget")
    done = stepped(said_in(its_trial(), {"baseline": 8, "candidate": 1}), policy, running=running)
    assert [one.policy.id for one in done.moves] == ["pol_1"]
    assert done.trial is not None
    assert [unit.void for unit in done.trial.units] == [None, "pol_1 was reverted", None]


def test_a_trials_rows_are_read_some_blocks_a_look_and_only_once_they_are_old_enough() -> None:
    rows = Rows(lambda: Instant(mono_s=0.0, wall_s=0.0))
    trial = its_trial(3)
    units = [
        msgspec.structs.replace(
            unit,
            void="cut" if unit.index == 0 else None,
            blocks=tuple(
                msgspec.structs.replace(block, ended_us=at_us(30.0)) for block in unit.blocks
            ),
        )
        for unit in trial.units
    ]
    split = plan(aged=(COPIED,), design="session_split")
    trial = msgspec.structs.replace(trial, plan=split, units=tuple(units))
    for block in range(6):
        row = request(10.0, arm="candidate", block=block, session_id="s", request_id=f"r{block}")
        rows.requests.append(row)
        rows.said.append(copied(row))
    reader, ripe_us = AgedReader(rows), at_us(90.0)
    assert reader.rows({"pol_1": trial}, closed_us=ripe_us - 1) == {}
    looks = [reader.rows({"pol_1": trial}, closed_us=ripe_us) for _ in range(6 // BLOCKS_A_LOOK)]
    assert looks[:-1] == [{}] * (len(looks) - 1)
    found = looks[-1]["pol_1"]
    assert sorted(found) == [2, 3, 4, 5], "of a void unit nothing is counted"
    assert [one.event_id for one in found[3].outcomes] == ["r3"]
    assert found[2].earlier == {"s"}, "it came first in a block that is void"

"""Fifty operators on the same policies while ``serve`` is killed; and the check sees faults."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks.races.books import Act, Kind, Outcome
from benchmarks.races.check import compare
from benchmarks.races.plan import Plan, plan
from benchmarks.races.summing import summary
from benchmarks.races.world import Outcome as Round
from benchmarks.races.world import live_through
from policies.audit import Entry
from tests.postgres import Postgres

SEED, KILLS = 5, 10


def check(outcome: Round) -> None:
    assert outcome.faults == (), f"seed {outcome.plan.seed}: {outcome.faults}"
    assert outcome.kills == KILLS
    assert outcome.acts["accepted"] > 20, "they acted"
    assert outcome.acts["refused"] > 20, "they raced"


def test_ten_kills_among_fifty_operators_on_sqlite_leave_one_outcome_each(tmp_path: Path) -> None:
    check(live_through(tmp_path, plan(SEED, kills=KILLS, database="sqlite")))


def test_ten_kills_among_fifty_operators_on_postgresql_leave_one_outcome_each(
    tmp_path: Path, postgres: Postgres
) -> None:
    wanted = plan(SEED, kills=KILLS, database="postgres")
    check(live_through(tmp_path, wanted, url=postgres.empty().url))


def act(outcome: Outcome, kind: Kind = "reject", **fields: Any) -> Act:
    return Act(
        **{
            "who": "ada",
            "kind": kind,
            "subject": "pol_1",
            "mark": "race-1-1.",
            "outcome": outcome,
            **fields,
        }
    )


def entry(index: int, action: str = "policy.rejected", **fields: Any) -> Entry:
    return Entry(
        **{
            "index": index,
            "at_us": index,
            "actor": "ada",
            "action": action,
            "subject": "pol_1",
            "target": "chat",
            "details": {"changes": {"cause": "race-1-1."}, "rev": index},
            **fields,
        }
    )


APPROVED = "policy.approved"
TAKEN = "race-2-1."
CASES = {
    "a lost act": ([act("accepted")], [], "acknowledged and not recorded"),
    "a doubled act": ([act("accepted")], [entry(1), entry(2)], "recorded twice"),
    "an act that came twice of an unanswered one": (
        [act("unknown")],
        [entry(1), entry(2)],
        "recorded twice",
    ),
    "a refused act": ([act("refused")], [entry(1)], "recorded though it never"),
    "an act that was never delivered": ([act("unsent")], [entry(1)], "recorded though it never"),
    "an act that nobody did": ([], [entry(1, APPROVED)], "recorded though it never"),
    "a resumption that nobody did": ([], [entry(1, "policy.on_trial")], "recorded though it never"),
    "two approvals by one": (
        [act("accepted", "approve"), act("refused", "approve", mark="race-1-2.")],
        [entry(1, APPROVED), entry(2, APPROVED)],
        "recorded twice",
    ),
    "another's revision": (
        [act("accepted", made="pol_1", rev=7)],
        [entry(1), entry(7, "policy.expired", actor="loop")],
        "a revision that was shown is another's",
    ),
    "an unknown revision": (
        [act("accepted", made="pol_1", rev=9)],
        [entry(1)],
        "a revision that was shown is not recorded",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_check_sees(case: str) -> None:
    acts, entries, words = CASES[case]
    found = compare(acts, entries, ["ada"])
    assert len(found) == 1
    assert found[0].startswith(words)


def test_the_check_is_content_with_what_may_be() -> None:
    acts = [
        act("accepted", made="pol_1", rev=3),
        act("unknown", mark="race-1-2."),
        act("unknown", mark="race-1-3."),
        act("accepted", "resume", mark="race-1-4."),
        act("accepted", "pause", who="bob", mark=TAKEN),
    ]
    late = {"changes": {"cause": "race-1-2."}, "rev": 4}
    entries = [
        entry(3),
        entry(4, details=late),
        entry(5, "policy.on_trial"),
        entry(6, "control.released", details={"reason": "race-9-9."}, actor="loop"),
        entry(7, "policy.on_trial", actor="bob", at_us=8),
        entry(8, "control.released", details={"reason": "away"}, actor="bob"),
        entry(9, "policy.on_trial", actor="bob", at_us=10),
        entry(10, "policy.paused", actor="bob", at_us=10, details={"changes": {"cause": TAKEN}}),
    ]
    assert compare(acts, entries, ["ada", "bob"]) == []


@pytest.mark.parametrize("seed", range(1, 5))
def test_a_seed_gives_the_same_plan(seed: int) -> None:
    first = plan(seed, kills=12)
    assert first == plan(seed, kills=12)
    assert first.database == ("postgres", "sqlite")[seed % 2]
    assert len(first.kills) == 12


def round_of(wanted: Plan, *faults: str) -> Round:
    return Round(
        plan=wanted,
        kills=len(wanted.kills),
        acts=Counter(accepted=5, refused=2),
        kinds=Counter(approve=5),
        policies=3,
        entries=20,
        ends=Counter(reverted=3),
        slowest_ready_s=0.5,
        faults=faults,
        wall_s=1.0,
    )


def test_the_summary_adds_up() -> None:
    told = summary([round_of(plan(1, kills=8)), round_of(plan(2, kills=8), "stuck: pol_1")])
    assert (told["kills"], told["kills_sqlite"], told["kills_postgres"]) == (16, 8, 8)
    assert told["acts"] == {"accepted": 10, "refused": 4}
    assert told["rounds_with_faults"] == [2]

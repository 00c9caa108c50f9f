"""Twenty ``kill -9`` of real processes under load; and the campaign would see what is wrong."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from benchmarks.kills.check import Of, compare
from benchmarks.kills.plan import KILLS, Plan, plan
from benchmarks.kills.summing import SOURCES, summary
from benchmarks.kills.tally import COUNT, Books, Feedback
from benchmarks.kills.world import Outcome, live_through, world
from benchmarks.rounds import Line, Progress, code_digest
from signals.events import MICROS
from signals.features.model import Outcome as Joined
from signals.features.reader import SqliteFeatures

SQLITE_SEED, SQLITE_KILLS = 11, 12
KAFKA_SEED, KAFKA_KILLS = 6, 8


def check(outcome: Outcome) -> None:
    assert outcome.faults == (), f"seed {outcome.plan.seed}: {outcome.faults}"
    assert (outcome.lost, outcome.twice) == (0, 0)
    assert outcome.acknowledged > 100, "there was load"


def test_twelve_kills_on_sqlite_lose_nothing_and_count_nothing_twice(tmp_path: Path) -> None:
    check(live_through(tmp_path, plan(SQLITE_SEED, kills=SQLITE_KILLS)))


def test_eight_kills_cut_connections_and_a_pause_on_kafka_lose_nothing(tmp_path: Path) -> None:
    wanted = plan(KAFKA_SEED, kills=KAFKA_KILLS)
    assert {blow.kind for blow in wanted.blows} == {"ingest", "member", "cut", "pause"}
    outcome = live_through(tmp_path, wanted)
    check(outcome)
    assert outcome.cuts >= 1


class Doubling(SqliteFeatures):
    """Features that show one outcome of each request twice."""

    def outcomes(self, request_id: str) -> list[Joined]:
        found = list(super().outcomes(request_id))
        return [*found, *found[:1]]


def test_the_comparison_sees_what_is_lost_doubled_and_changed(tmp_path: Path) -> None:
    wanted = msgspec.structs.replace(plan(1, kills=1), blows=())
    with world(tmp_path, wanted) as round_:
        round_.start()
        while round_.tally.books().acknowledged < 200:
            time.sleep(0.05)
        assert round_.quiet() == []
        while not round_.drained():
            time.sleep(0.05)
        books = round_.tally.books()
        assert compare(books, round_.features).faults == ()
        first = next(iter(books.feedback.values()))
        missing = msgspec.structs.replace(first, id="missing", metric=COUNT)
        assert faults(with_event(books, missing), round_.features) == {"lost": 1}
        changed = msgspec.structs.replace(first, micros=first.micros + MICROS)
        assert faults(with_event(books, changed), round_.features) == {"changed": 1, "sums": 1}
        doubling = Doubling(tmp_path / "features.db")
        about = {event.request_id for event in books.feedback.values()}
        assert faults(books, lambda _: doubling)["twice"] == len(about)
        doubling.close()


def with_event(books: Books, event: Feedback) -> Books:
    return Books(
        books.requests,
        {**books.feedback, event.id: event},
        {**books.states, event.id: "acknowledged"},
        books.conflicts,
        books.records,
    )


def faults(books: Books, of: Of) -> Counter[str]:
    found = Counter[str]()
    for fault in compare(books, of).faults:
        kind, _, rest = fault.partition(": ")
        found[kind] += int(rest.split(" ", 1)[0])
    return found


@pytest.mark.parametrize("seed", range(1, 9))
def test_a_seed_gives_the_same_plan_with_enough_kills(seed: int) -> None:
    first = plan(seed, kills=8)
    assert first == plan(seed, kills=8)
    assert first.bus == ("sqlite", "kafka")[seed % 2 == 0]
    assert 8 <= sum(KILLS[blow.kind] for blow in first.blows) <= 9


def outcome_of(wanted: Plan, *, lost: int = 0) -> Outcome:
    return Outcome(
        plan=wanted,
        kinds={"ingest": 8},
        kills=8,
        cuts=0,
        ended=0,
        acknowledged=100,
        unknown=0,
        conflicts=0,
        tries=10,
        lost=lost,
        twice=0,
        faults=(),
        drain_s=0.1,
        wall_s=1.0,
    )


def test_a_campaign_goes_on_after_an_interruption_but_not_on_other_code(tmp_path: Path) -> None:
    path, wanted = tmp_path / "kills.jsonl", plan(1, kills=8)
    Progress(path, "this", Outcome).add(outcome_of(wanted), 8)
    Progress(path, "other", Outcome).add(outcome_of(plan(3, kills=8)), 8)
    with path.open("ab") as file:
        file.write(msgspec.json.encode(Line(code="this", kills=8, outcome=outcome_of(wanted)))[:50])
    assert Progress(path, "this", Outcome).done() == {(wanted, 8): outcome_of(wanted)}
    assert len(code_digest(SOURCES)) == 16


def test_the_summary_adds_up() -> None:
    told = summary([outcome_of(plan(1, kills=8)), outcome_of(plan(3, kills=8), lost=2)])
    assert (told["kills"], told["rounds"], told["acknowledged"], told["lost"]) == (16, 2, 200, 2)
    assert told["blows"] == {"sqlite ingest": 16}

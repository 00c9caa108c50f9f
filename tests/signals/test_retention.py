"""What is old goes, in bounded steps, and nothing goes that something still needs."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from signals.events import MICROS, SeenTrial
from signals.features import letters
from signals.features.reader import SqliteFeatures
from signals.settings import FeatureSettings
from tests.signals.making import (
    T0_US,
    Folding,
    arrived,
    feedback,
    finished,
    request_id,
    second,
    stamp,
)
from tests.signals.on_the_bus import OnTheBus

DAY_US = 86_400 * MICROS
HOUR_US = 3600 * MICROS


@pytest.fixture
def folding(path: Path) -> Iterator[Folding]:
    made = Folding(path, prune_rows=10, dead_letters=2)
    yield made
    made.close()


def tables(path: Path) -> dict[str, int]:
    db = sqlite3.connect(path)
    names = [
        name
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        if not name.startswith("sqlite_")
    ]
    counts = {name: db.execute(f"SELECT COUNT(*) FROM {name}").fetchone()[0] for name in names}
    db.close()
    return counts


def pass_days(folding: Folding, days: float, *, seq: int) -> None:
    """The bus, and the engine's own time, go on."""
    at_us = T0_US + round(days * DAY_US)
    folding.take(second(seq, at_us), feedback(f"day{days}", at_us, number=999_999))


def prune_all(folding: Folding) -> int:
    rounds = 1
    while folding.prune():
        rounds += 1
    return rounds


def test_a_step_is_bounded_and_says_when_there_is_more(folding: Folding, path: Path) -> None:
    folding.take(*(finished(q, q, T0_US, T0_US + MICROS) for q in range(25)))
    pass_days(folding, 8.1, seq=25)
    before = tables(path)["requests"]
    assert folding.prune()
    assert tables(path)["requests"] == before - 10
    assert prune_all(folding) == 2
    assert tables(path)["requests"] == 0


def test_requests_outcomes_and_seconds_stay_eight_days(
    folding: Folding, features: SqliteFeatures, path: Path
) -> None:
    trial = stamp(trial=SeenTrial(id="t", block=0, arm="baseline"))
    folding.take(
        arrived(0, 1, T0_US, by=trial),
        second(1, T0_US + MICROS, by=trial),
        feedback("f", T0_US + MICROS, number=1),
    )
    pass_days(folding, 7.9, seq=2)
    prune_all(folding)
    assert features.request(request_id(1)) is not None
    assert len(features.trial_seconds("t")) == 1
    assert len(features.outcomes(request_id(1))) == 1
    pass_days(folding, 8.1, seq=3)
    prune_all(folding)
    assert features.request(request_id(1)) is None
    assert features.trial_seconds("t") == []
    assert features.outcomes(request_id(1)) == []


def test_atoms_stay_two_hours_and_minutes_two_days(
    folding: Folding, features: SqliteFeatures
) -> None:
    def kept(width_s: int) -> int:
        until_us = T0_US + 60 * MICROS
        return len(features.windows("chat", from_us=0, to_us=until_us, width_s=width_s))

    folding.take(finished(0, 1, T0_US, T0_US + MICROS), second(1, T0_US + HOUR_US))
    prune_all(folding)
    assert (kept(5), kept(60)) == (1, 1)
    folding.take(second(2, T0_US + 2 * HOUR_US + 120 * MICROS))
    prune_all(folding)
    assert (kept(5), kept(60)) == (0, 1)
    pass_days(folding, 2.1, seq=3)
    prune_all(folding)
    assert (kept(5), kept(60)) == (0, 0)


def test_what_comes_after_its_atom_went_corrects_the_minute_and_the_request(
    folding: Folding, features: SqliteFeatures
) -> None:
    folding.take(finished(0, 1, T0_US, T0_US + MICROS), finished(1, 2, T0_US, T0_US + MICROS))
    folding.take(second(2, T0_US + 3 * HOUR_US))
    prune_all(folding)
    folding.take(feedback("late", T0_US + 2 * MICROS, number=1))
    (minute,) = features.windows("chat", from_us=0, to_us=T0_US + MICROS, width_s=60)
    assert minute.counts.completed == 2
    assert minute.counts.outcomes == {"copied": {"shop": (1, MICROS)}}
    assert minute.revision == 2
    assert len(features.outcomes(request_id(1))) == 1
    assert features.windows("chat", from_us=0, to_us=T0_US + MICROS) == []


def test_a_catching_up_batch_that_spans_hours_loses_no_window(
    folding: Folding, features: SqliteFeatures
) -> None:
    folding.take(
        finished(0, 1, T0_US, T0_US + MICROS),
        second(1, T0_US + 5 * HOUR_US),
        finished(2, 2, T0_US, T0_US + MICROS),
    )
    (window,) = features.windows("chat", from_us=0, to_us=T0_US + MICROS)
    assert window.counts.completed == 2


def test_ids_are_remembered_for_eight_days_and_then_their_table_goes(
    folding: Folding, features: SqliteFeatures, path: Path
) -> None:
    def days() -> int:
        return sum(name.startswith("seen_") and name != "seen_filters" for name in tables(path))

    folding.take(*(feedback(f"f{number}", T0_US, number=number) for number in range(25)))
    assert days() == 1
    pass_days(folding, 8, seq=0)
    prune_all(folding)
    folding.take(feedback("f1", T0_US, number=1))
    assert features.producers()["shop"].duplicate == 1
    assert days() == 2
    pass_days(folding, 11, seq=1)
    assert folding.prune(), "25 ids went at once with their part: there may be more"
    assert not any(name.startswith(f"seen_{T0_US // DAY_US}_") for name in tables(path))
    folding.take(feedback("again", T0_US + 11 * DAY_US, number=1))


def test_of_dead_letters_the_latest_are_kept(folding: Folding, features: SqliteFeatures) -> None:
    for number in range(5):
        folding.take(feedback(f"d{number}", T0_US, number=1, name="retired"))
        folding.take(arrived(number, 1, T0_US))
    assert [dead.event_id for dead in features.dead_letters()] == ["d3", "d4"]
    assert features.dead_letters_dropped() == 3
    assert features.producers()["shop"].dropped == 3


def test_a_stage_that_stands_still_forgets_nothing(folding: Folding, path: Path) -> None:
    """Time is the bus's: however late it is, what was not read yet may still need what is there."""
    folding.take(arrived(0, 1, T0_US), second(1, T0_US), feedback("f", T0_US, number=2))
    before = tables(path)
    prune_all(folding)
    assert tables(path) == before


def test_ids_that_an_older_version_kept_are_still_known(
    path: Path, features: SqliteFeatures
) -> None:
    before = Folding(path)
    before.take(feedback("old", T0_US, number=1))
    before.close()
    day = T0_US // DAY_US
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        ((hash_, value),) = db.execute(f"SELECT hash, value FROM seen_{day}_0").fetchall()
        db.execute(f"DROP TABLE seen_{day}_0")
        db.execute(f"CREATE TABLE seen_{day} (identity BLOB NOT NULL UNIQUE, digest BLOB NOT NULL)")
        identity = hash_.to_bytes(8, signed=True) + value[:8]
        db.execute(f"INSERT INTO seen_{day} VALUES (?, ?)", (identity, value[8:]))
    after = Folding(path)
    try:
        after.take(feedback("old", T0_US, number=1), feedback("new", T0_US, number=2))
    finally:
        after.close()
    assert features.producers()["shop"].duplicate == 1
    assert f"seen_{day}" not in tables(path)


def test_what_is_old_goes_under_a_load_that_never_lets_up(tmp_path: Path) -> None:
    """Every batch is full: the stage is behind all the time, for days."""
    days, a_day = 20, 30
    line = OnTheBus(tmp_path, batch_events=10, prune_rows=20, prune_every_s=0.001)
    most = 0
    for day in range(days):
        line.now_us = at_us = T0_US + day * DAY_US
        first = day * a_day
        requests = [arrived(first + q, first + q, at_us) for q in range(a_day)]
        outcomes = [feedback(f"f{first + q}", at_us, number=first + q) for q in range(a_day)]
        line.take(*requests, *outcomes)
        most = max(most, tables(line.file)["requests"])
    kept = tables(line.file)
    line.close()
    assert most <= 10 * a_day
    assert kept["outcomes"] <= 10 * a_day
    assert sum(name.startswith("seen_2") for name in kept) <= 11


def test_to_look_for_old_orphans_costs_the_same_however_many_wait(
    folding: Folding, path: Path
) -> None:
    def steps() -> int:
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            count = 0

            def one_more() -> int:
                nonlocal count
                count += 1
                return 0

            db.set_progress_handler(one_more, 20)
            db.execute("BEGIN")
            letters.bury_orphans(db, T0_US, 10, FeatureSettings())
            return count

    folding.take(feedback("first", T0_US, number=1))
    few = steps()
    folding.take(*(feedback(f"f{number}", T0_US, number=number) for number in range(2, 500)))
    assert steps() == few


def test_a_round_that_finds_nothing_old_writes_nothing(folding: Folding, path: Path) -> None:
    folding.take(arrived(0, 1, T0_US), second(1, T0_US), feedback("f", T0_US, number=2))
    log = path.with_name(f"{path.name}-wal")
    before = log.read_bytes()
    assert not folding.prune()
    assert log.read_bytes() == before

"""What kills the feature stage is found and set aside; who is killed from outside blames nobody."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from signals.bus.port import Message
from signals.bus.sqlite import SqliteBus
from signals.codec import encode
from signals.definitions import Definition, StaticDefinitions
from signals.errors import Unavailable
from signals.events import MICROS, Record, ReplayLetters, Signal
from signals.features.deaths import RunState
from signals.features.follower import Follower
from signals.features.reader import SqliteFeatures
from signals.features.store import FeatureStore
from tests.signals import dying
from tests.signals.making import METRICS, T0_US, arrived, basic, feedback, request_id, rules
from tests.signals.on_the_bus import OnTheBus, commanded, replay
from tests.signals.processes import eventually

DEATHS = 3
QUICK: dict[str, Any] = {"death_pause_s": 0.02, "publish_ms": 10, "poll_ms": 5}
SEED = 31


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[SqliteBus]:
    made = SqliteBus(tmp_path / "bus")
    yield made
    made.close()


@pytest.fixture
def features(tmp_path: Path) -> Iterator[SqliteFeatures]:
    reader = SqliteFeatures(tmp_path / "features.db")
    yield reader
    reader.close()


def post(bus: SqliteBus, *signals: Signal | Record) -> None:
    all_ = [each if isinstance(each, Signal) else basic(each) for each in signals]
    bus.append(
        [
            Message(
                key=each.target,
                body=encode(each),
                producer=each.producer,
                accepted_us=each.time_us,
            )
            for each in all_
        ]
    ).result(10)


def deaths_until_it_lives(
    folder: Path,
    features: SqliteFeatures,
    *,
    offset: int,
    deadly: tuple[str, ...],
    raising: bool = False,
) -> int:
    """Start the stage again and again, as a supervisor does, until it has the offset behind it."""
    for deaths in range(40):
        process = dying.start(folder, deadly=deadly, raising=raising, **QUICK)
        deadline_s = time.monotonic() + 20
        while process.is_alive() and time.monotonic() < deadline_s:
            process.join(0.02)
            if process.is_alive() and _offset(features) >= offset:
                assert dying.stopped(process) == 0
                return deaths
        assert process.exitcode == (1 if raising else -9), "it died of the event"
    raise AssertionError("it never lived")


def _offset(features: SqliteFeatures) -> int:
    try:
        return features.bus_offset()
    except Unavailable:
        return -1


@pytest.mark.parametrize("raising", [False, True])
def test_an_event_that_kills_the_process_is_set_aside_alone_after_six_deaths(
    tmp_path: Path, bus: SqliteBus, features: SqliteFeatures, raising: bool
) -> None:
    poison = feedback("poison", T0_US, number=1)
    around = [feedback(f"f{n}", T0_US, number=1) for n in range(20)]
    post(bus, arrived(0, 1, T0_US), *around[:10], poison, *around[10:])
    deaths = deaths_until_it_lives(
        tmp_path, features, offset=22, deadly=("poison",), raising=raising
    )
    assert deaths == 2 * DEATHS
    (letter,) = features.dead_letters()
    assert (letter.offset, letter.reason) == (12, "deadly")
    assert len(features.outcomes(request_id(1))) == 20
    # Mended, the event is replayed, and counts.
    post(bus, commanded("mended", replay(12)))
    process = dying.start(tmp_path, **QUICK)
    eventually(features, offset=23)
    assert dying.stopped(process) == 0
    assert features.dead_letters() == []
    assert "poison" in [each.event_id for each in features.outcomes(request_id(1))]


def test_several_deadly_events_are_found_one_after_the_other(
    tmp_path: Path, bus: SqliteBus, features: SqliteFeatures
) -> None:
    events = [feedback(f"f{n}", T0_US, number=1) for n in range(30)]
    post(bus, arrived(0, 1, T0_US), *events)
    deaths = deaths_until_it_lives(tmp_path, features, offset=31, deadly=("f0", "f15", "f29"))
    assert deaths == DEATHS + 3 * DEATHS, "the stretch is taken one by one to its end"
    assert [letter.event_id for letter in features.dead_letters()] == ["", "", ""]
    assert [letter.reason for letter in features.dead_letters()] == ["deadly"] * 3
    assert len(features.outcomes(request_id(1))) == 27


def test_a_replay_that_kills_the_process_is_set_aside_like_any_event(
    tmp_path: Path, bus: SqliteBus, features: SqliteFeatures
) -> None:
    post(bus, arrived(0, 1, T0_US), feedback("poison", T0_US, number=1))
    deaths_until_it_lives(tmp_path, features, offset=2, deadly=("poison",))
    post(bus, commanded("again", ReplayLetters(actor="ada", offsets=(2,))))
    deaths_until_it_lives(tmp_path, features, offset=3, deadly=("poison",))
    assert [(each.offset, each.reason) for each in features.dead_letters()] == [
        (2, "deadly"),
        (3, "deadly"),
    ]


def test_a_process_killed_from_outside_hundreds_of_times_blames_nobody(
    tmp_path: Path, bus: SqliteBus, features: SqliteFeatures
) -> None:
    """Kills come so soon after each start that batches hardly ever get through, so entries are
    taken one by one, and a third of the kills are inside a try. Without the pause before the next
    one, one run in three of this test blames an entry."""
    rng, kills, posted = Random(SEED), 100, 0
    records: list[Record | Signal] = []
    for number in range(400):
        records.append(arrived(number, number, T0_US + number * MICROS))
        records.append(feedback(f"f{number}", T0_US + number * MICROS, number=number))
    for _ in range(kills):
        some = records[posted : posted + rng.randint(0, 16)]
        if some:
            post(bus, *some)
        posted += len(some)
        dying.killed(dying.start(tmp_path, publish_ms=10), after_s=rng.uniform(0.0, 0.1))
    post(bus, *records[posted:], feedback("last", T0_US, number=0, name="resent"))
    process = dying.start(tmp_path, publish_ms=10)
    eventually(features, offset=len(records) + 1, within_s=60)
    assert dying.stopped(process) == 0
    assert features.dead_letters() == [], f"seed {SEED}"
    joined = [len(features.outcomes(request_id(number))) for number in range(400)]
    assert joined == [2, *[1] * 399], f"seed {SEED}"
    assert not _state(tmp_path).running


def test_an_orderly_end_and_progress_are_no_deaths(tmp_path: Path) -> None:
    line = OnTheBus(tmp_path)
    line.take(arrived(0, 1, T0_US))
    line.close()
    for _ in range(2 * DEATHS):
        line = OnTheBus(tmp_path)
        line.settle()
        line.close()
    assert (_state(tmp_path).deaths, _state(tmp_path).running) == (0, False)


def test_after_a_death_in_a_try_the_next_one_waits(tmp_path: Path) -> None:
    line = OnTheBus(tmp_path, death_pause_s=5.0)
    line.take(arrived(0, 1, T0_US))
    (offset,) = line.post(feedback("a", T0_US, number=1))
    store = FeatureStore(line.file)
    store.begin(before=None)
    store.note(store.run.watching(until=offset).trying_alone(offset))
    store.close()
    with closing(Follower(line.reader, line.file, rules(death_pause_s=5.0))) as follower:
        assert 4.0 < follower.step() <= 5.0
        assert line.features.bus_offset() == offset - 1
    patient = Follower(line.reader, line.file, rules(death_pause_s=0.0))
    line.follow(patient)
    line.settle()
    assert len(line.features.outcomes(request_id(1))) == 1
    line.close()


class _AwayAtFirst(StaticDefinitions):
    """Definitions whose store does not answer the first few times."""

    def __init__(self, away: int) -> None:
        super().__init__(METRICS)
        self.away = away

    def current(self) -> Mapping[str, Definition]:
        if self.away:
            self.away -= 1
            raise Unavailable("the store of definitions is away")
        return super().current()


def test_what_is_away_is_waited_for_and_nothing_is_buried_or_blamed_for_it(tmp_path: Path) -> None:
    line = OnTheBus(tmp_path)
    line.take(arrived(0, 1, T0_US))
    line.post(*(feedback(f"f{n}", T0_US, number=1) for n in range(5)))
    away = _AwayAtFirst(3 * DEATHS)
    follower = Follower(line.reader, line.file, replace(rules(), definitions=away))
    line.follow(follower)
    while away.away:
        with pytest.raises(Unavailable):
            follower.step()
        assert line.features.bus_offset() == 1
    line.settle()
    assert len(line.features.outcomes(request_id(1))) == 5
    assert line.features.dead_letters() == []
    assert _state(tmp_path).deaths == 1, "the first follower's, which was left without a goodbye"
    line.close()


def test_deaths_count_at_one_offset_only_and_tries_only_while_they_last() -> None:
    state = RunState().begun(epoch=1, at=5)
    assert not state.suspicious(at=5, deaths=1), "the first run has no death behind it"
    for deaths in (1, 2, 3):
        state = state.begun(epoch=1 + deaths, at=5)
        assert state.deaths == deaths
    assert state.suspicious(at=5, deaths=3)
    assert state.begun(epoch=5, at=6).deaths == 1, "progress begins the count anew"
    tried = state.watching(until=9).trying_alone(6)
    assert tried.resumed(epoch=6).begun(epoch=7, at=5).alone_deaths == 0, "a failing disk"
    assert tried.begun(epoch=6, at=6).alone_deaths == 0, "it went through"
    once = tried.begun(epoch=6, at=5)
    assert once.begun(epoch=7, at=5).alone_deaths == 1, "killed before it tried again"
    thrice = once.trying_alone(6).begun(epoch=7, at=5).trying_alone(6).begun(epoch=8, at=5)
    assert thrice.deadly(6, deaths=3) and not thrice.deadly(7, deaths=3)
    assert thrice.pause_s(6, each_s=1.0) == 3.0
    assert thrice.trying_alone(7).alone_deaths == 0


def _state(folder: Path) -> RunState:
    with closing(sqlite3.connect(folder / "features.db")) as db:
        (state,) = db.execute("SELECT state FROM run").fetchone()
    return msgspec.json.decode(state, type=RunState)

"""A replay gives the same windows and outcomes, whole or from the middle; an edit is found."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from controller.comparing import Comparison, compare
from signals.bus.memory import MemoryBus
from signals.bus.port import Message
from signals.codec import encode
from signals.errors import Conflict
from signals.events import MICROS, DiscardLetters, IntentLoad, Quarantine, Record, Signal
from signals.features.reader import SqliteFeatures
from signals.features.replaying import Folded, Stretch, fold_again
from tests.signals.making import T0_US, Folding, arrived, basic, feedback, finished, rules, second

SECONDS = 400
SEED = 4711


def traffic(rng: Random) -> list[Signal]:
    """A request a second, feedback about most of them, some early, some never claimed, some dead;
    and a producer that is set aside for a while."""
    found: list[tuple[float, Signal | Record]] = []
    for number in range(SECONDS):
        at_us = T0_US + number * MICROS
        took_us = rng.randrange(100_000, 3_000_000)
        seq = number * 3
        found.append((number, arrived(seq, number, at_us)))
        found.append((number + took_us / 1e6, finished(seq + 1, number, at_us, at_us + took_us)))
        found.append((number + 1, second(seq + 2, at_us + MICROS, live=IntentLoad(arrivals=1))))
        about = number if rng.random() < 0.9 else number + 100_000
        name = rng.choice(["copied", "copied", "stars", "unheard_of"])
        said = feedback(f"f{number}", at_us + took_us, number=about, name=name)
        found.append((number + rng.uniform(-5, 30), said))
    aside = Quarantine(actor="ana", name="shop", on=True, reason="a test")
    let_in = Quarantine(actor="ana", name="shop", on=False, reason="a test")
    for at_s, number, command in (
        (200.5, 1, aside),
        (220.5, 2, let_in),
        (300.5, 3, DiscardLetters(actor="ana", offsets=(7,))),
    ):
        found.append((at_s, commanded(number, command)))
    ordered = sorted(found, key=lambda each: each[0])
    return [each if isinstance(each, Signal) else basic(each) for _, each in ordered]


def commanded(number: int, command: Quarantine | DiscardLetters) -> Signal:
    return Signal(
        id=f"cmd_{number}.0",
        producer="serve",
        kind="command",
        name=str(type(command).__struct_config__.tag),
        target="chat",
        time_us=T0_US,
        command=command,
    )


class Both:
    """A bus, and the file of a stage that followed it in batches of its own."""

    def __init__(self, folder: Path) -> None:
        rng = Random(SEED)
        self.folder = folder
        self.bus = MemoryBus()
        signals = traffic(rng)
        for number, signal in enumerate(signals):
            accepted_us = T0_US + number * MICROS // 4
            body = encode(signal)
            message = Message(
                key="chat", body=body, producer=signal.producer, accepted_us=accepted_us
            )
            self.bus.append([message]).result()
        live = Folding(folder / "live.db", lateness_s=30)
        live.take_all(signals, rng)
        live.close()
        self.live = SqliteFeatures(folder / "live.db")
        self.count = 0

    def folded(self, *, after: int = 0) -> tuple[Folded, SqliteFeatures]:
        self.count += 1
        path = self.folder / f"again-{self.count}.db"
        stretch = Stretch(after=after, until=self.bus.end())
        done = fold_again(
            self.bus, path, rules(lateness_s=30, batch_events=97), stretch, told=lambda _: None
        )
        return done, SqliteFeatures(path)

    def compared(self, *, after: int = 0, from_s: int = -3600) -> Comparison:
        done, again = self.folded(after=after)
        with closing(again):
            return compare(
                self.live,
                again,
                ["chat"],
                from_us=T0_US + from_s * MICROS,
                to_us=T0_US + 3600 * MICROS,
                offsets=range(after + 1, done.last + 1),
            )


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    made = Both(tmp_path_factory.mktemp("both"))
    yield made
    made.live.close()


def test_the_whole_log_gives_the_same_whatever_the_batches(both: Both) -> None:
    found = both.compared()
    assert found.listed == [], f"seed {SEED}"
    assert found.differences == 0
    assert found.windows > 60
    assert found.outcomes > 150


def test_a_log_without_its_beginning_gives_the_same_after_a_while(both: Both) -> None:
    found = both.compared(after=400, from_s=200)
    assert found.listed == [], f"seed {SEED}"
    assert found.windows > 20
    assert found.outcomes > 50


def test_what_began_before_the_log_would_differ_if_it_were_compared(both: Both) -> None:
    assert both.compared(after=400).differences > 0


EDITS = {
    "a value": "UPDATE outcomes SET row = json_set(row, '$.value', 0.5) WHERE bus_offset ="
    " (SELECT MAX(bus_offset) FROM outcomes)",
    "a lost outcome": "DELETE FROM outcomes WHERE bus_offset ="
    " (SELECT MIN(bus_offset) FROM outcomes)",
    "a flag": "UPDATE windows SET incomplete = 1 WHERE rowid ="
    " (SELECT MAX(rowid) FROM windows WHERE closed AND width_s = 60)",
    "a lost window": "DELETE FROM windows WHERE rowid = (SELECT rowid FROM windows"
    " WHERE closed AND width_s = 5 ORDER BY start_us LIMIT 1 OFFSET 9)",
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_one_difference_is_found_and_named(tmp_path: Path, edit: str) -> None:
    edited = Both(tmp_path)
    with closing(sqlite3.connect(tmp_path / "live.db")) as db:
        assert db.execute(edit).rowcount == 1
        db.commit()
    found = edited.compared()
    edited.live.close()
    assert found.differences == 1
    assert found.listed[0].live != found.listed[0].replayed


def test_a_replay_goes_into_a_file_of_its_own_and_says_what_it_folded(both: Both) -> None:
    done, again = both.folded()
    again.close()
    assert (done.entries, done.last) == (both.bus.end(), both.bus.end())
    assert done.from_us == T0_US
    stretch = Stretch(after=0, until=10)
    with pytest.raises(Conflict, match="exists"):
        fold_again(both.bus, both.folder / "live.db", rules(), stretch, told=lambda _: None)


def test_a_stretch_ends_where_it_is_told_to(both: Both, tmp_path: Path) -> None:
    stretch = Stretch(after=0, until=both.bus.end(), until_us=T0_US + 10 * MICROS)
    done = fold_again(both.bus, tmp_path / "some.db", rules(), stretch, told=lambda _: None)
    assert done.entries == 41


def test_an_entry_that_kills_the_stage_is_set_aside(both: Both, tmp_path: Path) -> None:
    stretch = Stretch(after=0, until=20)
    path = tmp_path / "some.db"
    fold_again(both.bus, path, rules(), stretch, deadly={5}, told=lambda _: None)
    with closing(SqliteFeatures(path)) as again:
        assert [letter.offset for letter in again.dead_letters(reason="deadly")] == [5]

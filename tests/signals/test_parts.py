"""Keys kept in parts of bounded size, with a filter before each."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from signals.errors import Broken
from signals.features.filters import Filter, probes
from signals.features.parts import DayParts
from signals.features.stacks import SLOTS, Stacks

SEED = 20261129
PART_KEYS = 100


@pytest.fixture
def db(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(tmp_path / "parts.db", isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute(
        "CREATE TABLE dedupe_filters (part TEXT PRIMARY KEY, keys INTEGER, bits BLOB)"
    )
    yield connection
    connection.close()


def made(db: sqlite3.Connection) -> DayParts:
    return DayParts(db, "dedupe", part_keys=PART_KEYS)


def hashes(rng: random.Random, count: int) -> list[int]:
    return [rng.getrandbits(64) - 2**63 for _ in range(count)]


def tables(db: sqlite3.Connection) -> list[str]:
    found = db.execute("SELECT name FROM sqlite_master WHERE name GLOB 'dedupe_[0-9]*'")
    return sorted(name for (name,) in found)


def test_what_was_added_is_found_in_whichever_part_and_day_it_is(db: sqlite3.Connection) -> None:
    rng = random.Random(SEED)
    parts = made(db)
    kept: dict[int, bytes] = {}
    for step in range(30):
        some = {key: rng.randbytes(8) for key in hashes(rng, 30)}
        parts.add(20_000 + step % 3, list(some.items()))
        kept |= some
    assert len(tables(db)) == 9, SEED
    assert parts.find([*kept, *hashes(rng, 500)]) == {key: [value] for key, value in kept.items()}


def test_a_hash_may_stand_for_several_keys(db: sqlite3.Connection) -> None:
    parts = made(db)
    parts.add(1, [(7, b"one"), (7, b"two")])
    parts.add(2, [(7, b"three")])
    assert sorted(parts.find([7])[7]) == [b"one", b"three", b"two"]


def test_adding_the_same_again_changes_nothing(db: sqlite3.Connection) -> None:
    parts = made(db)
    parts.add(1, [(7, b"one")])
    parts.add(1, [(7, b"one")])
    assert parts.find([7]) == {7: [b"one"]}


def test_a_value_is_replaced_in_a_full_part_too(db: sqlite3.Connection) -> None:
    rng = random.Random(SEED)
    parts = made(db)
    parts.add(1, [(7, b"before"), *((key, b"x") for key in hashes(rng, PART_KEYS))])
    parts.add(1, [(8, b"other")])
    parts.replace(7, b"before", b"after")
    assert parts.find([7, 8]) == {7: [b"after"], 8: [b"other"]}


def test_what_was_removed_is_not_found_and_its_neighbours_are(db: sqlite3.Connection) -> None:
    rng = random.Random(SEED)
    parts = made(db)
    parts.add(1, [(7, b"goes"), (7, b"stays"), *((key, b"x") for key in hashes(rng, PART_KEYS))])
    parts.remove(7, b"goes")
    assert parts.find([7]) == {7: [b"stays"]} == made(db).find([7])


def test_the_file_alone_says_what_is_kept(db: sqlite3.Connection) -> None:
    rng = random.Random(SEED)
    keys = hashes(rng, 250)
    parts = made(db)
    for start in range(0, len(keys), 50):
        parts.add(3, [(key, b"v") for key in keys[start : start + 50]])
    again = made(db)
    assert again.find(keys) == parts.find(keys) == {key: [b"v"] for key in keys}
    again.add(3, [(1, b"new")])
    assert made(db).find([1]) == {1: [b"new"]}


def test_after_a_rollback_reload_forgets_the_part_begun_in_it(db: sqlite3.Connection) -> None:
    parts = made(db)
    db.execute("BEGIN IMMEDIATE")
    parts.add(4, [(7, b"gone")])
    db.execute("ROLLBACK")
    parts.reload()
    assert parts.find([7]) == {}
    parts.add(4, [(7, b"here")])
    assert parts.find([7]) == {7: [b"here"]}


def test_a_day_goes_part_by_part_and_leaves_nothing(db: sqlite3.Connection) -> None:
    rng = random.Random(SEED)
    parts = made(db)
    kept = hashes(rng, 40)
    for _ in range(5):
        parts.add(1, [(key, b"v") for key in hashes(rng, 50)])
    parts.add(2, [(key, b"v") for key in kept])
    gone = []
    while 1 in parts.days():
        gone.append(parts.drop_oldest(1))
    assert gone == [100, 100, 50]
    assert [name for name in tables(db) if "_1_" in name] == []
    assert len(parts.find(kept)) == 40
    assert db.execute("SELECT COUNT(*) FROM dedupe_filters").fetchone() == (0,)


def test_a_filter_forgets_nothing_and_is_seldom_wrong() -> None:
    rng = np.random.default_rng(SEED)
    inside = rng.integers(-(2**63), 2**63 - 1, 65_536, np.int64)
    outside = rng.integers(-(2**63), 2**63 - 1, 200_000, np.int64)
    filter_ = Filter(65_536)
    filter_.add(inside)
    again = Filter(65_536, filter_.stored())
    assert len(again.perhaps(probes(inside, again.bits))) == len(inside)
    assert len(again.perhaps(probes(outside, again.bits))) < 0.002 * len(outside)


def test_many_filters_asked_at_once_say_what_each_would_say() -> None:
    rng = np.random.default_rng(SEED)
    filters = {f"part {number}": Filter(100) for number in range(2 * SLOTS + 3)}
    stacks = Stacks(Filter(100).bits)
    asked = []
    for name, filter_ in filters.items():
        keys = rng.integers(-(2**63), 2**63 - 1, 100, np.int64)
        filter_.add(keys)
        stacks.add(name, filter_)
        asked.append(keys[:2])
    for name in ("part 3", "part 70", f"part {2 * SLOTS + 2}"):
        stacks.remove(name)
        del filters[name]
    late = Filter(100)
    late.add(asked[3])
    stacks.add("late", late)
    with pytest.raises(Broken):
        stacks.add("late", late)
    filters["late"] = late
    wanted = probes(np.concatenate(asked), stacks.bits)
    each = {name: filter_.perhaps(wanted).tolist() for name, filter_ in filters.items()}
    assert stacks.perhaps(wanted) == {name: places for name, places in each.items() if places}


@pytest.mark.parametrize("seed", range(SEED, SEED + 3))
def test_nothing_is_forgotten_whatever_goes_on(db: sqlite3.Connection, seed: int) -> None:
    """Days grow in turn, transactions fail, the oldest days go, the file is opened again."""
    rng = random.Random(seed)
    parts = made(db)
    kept: dict[int, dict[int, bytes]] = {}
    for _ in range(500):
        day = rng.randint(1, 4) + 2 * len(kept) // 4
        some = {key: rng.randbytes(4) for key in hashes(rng, rng.randint(1, 90))}
        db.execute("BEGIN IMMEDIATE")
        parts.add(day, list(some.items()))
        gone = kept and rng.random() < 0.02
        oldest = min(parts.days())
        while gone and oldest in parts.days():
            parts.drop_oldest(oldest)
        if rng.random() < 0.2:
            db.execute("ROLLBACK")
            parts.reload()
        else:
            db.execute("COMMIT")
            kept.setdefault(day, {}).update(some)
            if gone:
                kept.pop(oldest, None)
        if rng.random() < 0.02:
            parts = made(db)
    expected = {key: [value] for of_day in kept.values() for key, value in of_day.items()}
    assert parts.find([*expected, *hashes(rng, 200)]) == expected, seed
    assert made(db).find(expected) == expected, seed
    assert len(tables(db)) > SLOTS, seed

"""Whoever owns the database, and not the key and the heads outside, is found out; nobody else is.

A short part of ``make campaign ARGS="--only tamper"`` and ``--only honest``.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from benchmarks.tampering import campaign
from benchmarks.tampering.attacks import ATTACKS
from benchmarks.tampering.campaign import Make, databases, main, plans, summary
from benchmarks.tampering.databases import Backup, PostgresDatabase, SqliteFile
from benchmarks.tampering.rounds import Outcome, Plan, Round, attacked, honest, live, names
from tests.postgres import Postgres

SEED = 3


@pytest.fixture(scope="module")
def sqlite() -> Iterator[Make]:
    """How to make a new store in a file."""
    with databases(("sqlite",)) as make:
        yield make["sqlite"]


@pytest.fixture(scope="module")
def lived(sqlite: Make, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Backup]:
    """A folder with an honest history, and a backup that was made on the way."""
    folder = tmp_path_factory.mktemp("lived")
    (folder / "state").mkdir()
    round_ = Round(folder, sqlite(folder), Random(SEED))
    return folder, live(round_, 2)


@pytest.mark.parametrize("attack", ATTACKS)
def test_every_attack_on_sqlite_is_found_and_named(
    attack: str, lived: tuple[Path, Backup], tmp_path: Path
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(lived[0], folder)
    round_ = Round(folder, SqliteFile(folder / "state" / "store.db"), Random(SEED))
    assert list(attacked(round_, lived[1], attack)) == []


@pytest.fixture(scope="module")
def lived_on_postgres(
    postgres: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, PostgresDatabase, Backup, object]:
    """The same in a server, and a copy of the database to begin each attack with."""
    folder = tmp_path_factory.mktemp("lived")
    database = PostgresDatabase(postgres, postgres.address())
    backup = live(Round(folder, database, Random(SEED)), 2)
    return folder, database, backup, database.save()


@pytest.mark.parametrize(
    "attack", ["edit_whole", "delete_and_close", "truncate", "hash_all_anew", "put_old_back"]
)
def test_every_sort_of_attack_on_postgresql_is_found_and_named(
    attack: str, lived_on_postgres: tuple[Path, PostgresDatabase, Backup, object]
) -> None:
    folder, database, backup, saved = lived_on_postgres
    database.put_back(saved)
    assert list(attacked(Round(folder, database, Random(SEED)), backup, attack)) == []


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_an_honest_history_raises_no_alarm_on_sqlite(
    seed: int, sqlite: Make, tmp_path: Path
) -> None:
    (tmp_path / "state").mkdir()
    outcome = honest(tmp_path, sqlite(tmp_path), Plan(seed=seed, database="sqlite"))
    assert outcome.faults == (), f"seed {seed}"
    assert outcome.entries > 30
    assert outcome.heads > 3


def test_an_honest_history_raises_no_alarm_on_postgresql(
    tmp_path: Path, postgres: Postgres
) -> None:
    make, plan = campaign.postgres(postgres), Plan(seed=4, database="postgres")
    assert honest(tmp_path, make(tmp_path), plan).faults == ()


def test_a_round_that_was_lived_through_is_not_lived_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    progress = tmp_path / "progress.jsonl"
    options = ["--database", "sqlite", "--rounds", "1", "--progress", str(progress)]
    assert main("tamper", options) == 0
    written = progress.read_bytes()
    assert main("tamper", options) == 0
    assert progress.read_bytes() == written
    assert '"undetected": 0' in capsys.readouterr().out


def test_a_campaign_has_every_attack_on_each_database_and_tells_what_was_missed() -> None:
    several = plans("tamper", 1, ("sqlite", "postgres"))
    wanted = [next(several) for _ in range(2 * len(ATTACKS))]
    assert {(plan.attack, plan.database) for plan in wanted} == {
        (attack, database) for attack in ATTACKS for database in ("sqlite", "postgres")
    }
    missed = Outcome(plan=wanted[0], entries=9, heads=2, restores=0, archived=0, faults=("x",))
    assert summary("tamper", [missed])["undetected"] == 1
    assert summary("honest", [missed])["false_alarms"] == 1


def test_a_finding_names_a_range_only_if_it_holds_what_was_touched() -> None:
    assert names("audit entry 3: it is missing", (3, 3))
    assert names("audit entries 3–7: one or more are not as published", (5, 5))
    assert not names("audit entries 3–7: one or more are not as published", (8, 9))
    assert not names("audit head: it says 4 entries", (3, 3))
    assert names("override ovr_1: its body", "override ")

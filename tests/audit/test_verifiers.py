"""The offline verifier and the second one, as an auditor runs them: three files, no more."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from benchmarks.tampering.databases import SqliteFile
from benchmarks.tampering.living import Life
from benchmarks.tampering.rounds import Round, live
from controller.audit.act_histories import KINDS, SEGMENTS
from controller.audit.chain import Chain
from controller.audit.export import export
from controller.audit.verify import verify
from policies.audit import leaf_hash
from policies.merkle import Tree
from policies.published import Checkpoint
from tests.audit.conftest import World
from tests.cli.running import Trimtab
from tests.house.tree import ROOT

Edit = Callable[[list[str]], list[str]]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, empty_store: Path) -> Path:
    """What an auditor takes: heads, then an export; and the public keys that he has."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "state").mkdir()
    shutil.copy(empty_store, folder / "state" / "store.db")
    round_ = Round(folder, SqliteFile(folder / "state" / "store.db"), Random(5))
    live(round_, 2)
    shutil.copy(round_.outside / "heads.jsonl", folder / "heads.jsonl")
    shutil.copy(round_.layout.audit_public, folder / "audit.public.json")
    lines = export(round_.layout.store_db, archives=round_.layout.archives)
    (folder / "audit.jsonl").write_bytes(b"".join(lines))
    return folder


def ours(folder: Path, export: Path) -> tuple[int, str]:
    done = Trimtab(folder)(
        *("audit", "verify", "--export", str(export)),
        *("--heads", str(folder / "heads.jsonl")),
        *("--public-keys", str(folder / "audit.public.json")),
    )
    return done.code, done.out


def second(folder: Path, export: Path, heads: str = "heads.jsonl") -> tuple[int, str]:
    """On a machine whose own encoding is not UTF-8."""
    names = [export, folder / heads, folder / "audit.public.json"]
    command = [sys.executable, "-X", "utf8=0", str(ROOT / "docs" / "verify_audit.py")]
    done = subprocess.run(
        [*command, *map(str, names)],
        capture_output=True,
        encoding="utf-8",
        env={"LC_ALL": "C", "PYTHONIOENCODING": "utf-8"},
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout


def rehashed(line: str, old: str, new: str) -> str:
    """A line with other bytes, and a leaf hash that matches them."""
    read = json.loads(line)
    assert old in read["entry"]
    entry = read["entry"].replace(old, new, 1)
    return json.dumps(read | {"entry": entry, "leaf_hash": leaf_hash(entry.encode()).hex()})


EDITS: dict[str, Edit] = {
    "bytes": lambda lines: [*lines[:9], lines[9].replace("at_us", "at_ms", 1), *lines[10:]],
    "whole": lambda lines: [*lines[:9], rehashed(lines[9], "actor", "aktor"), *lines[10:]],
    "gone": lambda lines: [*lines[:9], *lines[10:]],
    "swapped": lambda lines: [*lines[:9], lines[10], lines[9], *lines[11:]],
    "twice": lambda lines: [*lines[:9], lines[9], *lines[9:]],
    "cut": lambda lines: lines[:9],
}


def test_both_take_an_honest_export_for_honest(files: Path) -> None:
    for verifier in (ours, second):
        code, out = verifier(files, files / "audit.jsonl")
        assert code == 0, out
        assert out.endswith("clean\n")


def test_both_pass_over_a_line_that_was_torn_inside_a_letter_and_know_any_alphabet(
    world: World,
) -> None:
    with world.desk() as desk:
        world.append(3, actor="Jürgen\u2028Ωmega")
        assert desk.publisher.publish() is not None
        with world.heads.open("ab") as file:
            file.write('{"body":"J\u00fc'.encode()[:-1])
        world.append(3, actor="Jürgen")
        assert desk.publisher.publish() is not None
        with world.heads.open("ab") as file:
            file.write(b'[1]\n"x"\n{"body":"3","signatures":{}}\n{"body":"{}","signatures":3}\n')
    folder = world.layout.keys
    exported = folder / "audit.jsonl"
    exported.write_bytes(b"".join(export(world.layout.store_db)))
    shutil.copy(world.heads, folder / "heads.jsonl")
    for verifier in (ours, second):
        code, out = verifier(folder, exported)
        assert (code, out.count("torn")) == (0, 5), out


def test_both_count_entries_without_their_bytes_and_refuse_what_is_no_leaf_hash(
    world: World,
) -> None:
    with world.desk() as desk:
        world.append(8)
        assert desk.publisher.publish() is not None
    folder = world.layout.keys
    shutil.copy(world.heads, folder / "heads.jsonl")
    lines = [json.loads(one) for one in export(world.layout.store_db)]
    exported = folder / "audit.jsonl"
    bare = [one | {"entry": None} for one in lines[:4]]
    exported.write_text("".join(json.dumps(one) + "\n" for one in [*bare, *lines[4:]]))
    for verifier in (ours, second):
        code, out = verifier(folder, exported)
        assert code == 0
        assert "4 entries " in out
        assert "not proven" in out
    left, right = (bytes.fromhex(one["leaf_hash"]) for one in bare[:2])
    bare[0]["leaf_hash"], bare[1]["leaf_hash"] = (left + right[:8]).hex(), right[8:].hex()
    exported.write_text("".join(json.dumps(one) + "\n" for one in [*bare, *lines[4:]]))
    for verifier in (ours, second):
        assert verifier(folder, exported)[0] == 1


@pytest.mark.parametrize("edit", EDITS)
def test_both_find_what_was_done_to_an_export(files: Path, tmp_path: Path, edit: str) -> None:
    lines = (files / "audit.jsonl").read_text().splitlines()
    edited = tmp_path / "edited.jsonl"
    edited.write_text("\n".join(EDITS[edit](lines)) + "\n")
    for verifier in (ours, second):
        code, out = verifier(files, edited)
        assert code == 1
        assert not out.endswith("clean\n")


def test_the_second_verifier_is_short_and_knows_nothing_of_ours() -> None:
    text = (ROOT / "docs" / "verify_audit.py").read_text()
    assert len(text.splitlines()) <= 120
    for room in ("signals", "policies", "controller", "engine"):
        assert f"import {room}" not in text
        assert f"from {room}" not in text


def test_heads_without_keys_and_a_store_with_an_export_are_refused(files: Path) -> None:
    run = Trimtab(files)
    half = run("audit", "verify", "--db", "x", "--heads", str(files / "heads.jsonl"))
    assert (half.code, "give both files" in half.err) == (2, True)
    both = run("audit", "verify", "--db", "x", "--export", str(files / "audit.jsonl"))
    assert (both.code, "not both" in both.err) == (2, True)


def test_the_tail_that_is_not_outside_yet_is_counted_and_no_finding(world: World) -> None:
    with world.desk() as desk:
        world.append(5)
        desk.publisher.publish()
        world.append(7)
        found = world.verified()
    assert found.findings == ()
    assert found.unpublished == 7


def test_every_edited_cell_of_a_row_that_entries_speak_of_is_named(world: World) -> None:
    with world.desk() as desk:
        assert world.store is not None
        Life(world.store, Random(8)).act(70)
        desk.sealer.seal(by="ann", entries=5)
    tables = [(kind.table, f"{kind.noun} ", kind.names) for kind in (*KINDS, SEGMENTS)]
    tables += [("modes", "mode of ", ("target", "knob", "mode"))]
    tables += [("controls", "control of ", ("target", "body"))]
    count = 0
    with closing(sqlite3.connect(world.layout.store_db, isolation_level=None)) as db:
        db.execute("DROP TRIGGER audit_archives_never_change")
        for table, named, columns in tables:
            for column in columns:
                ((rowid, value),) = db.execute(f"SELECT rowid, {column} FROM {table} LIMIT 1")
                edit = f"UPDATE {table} SET {column} = ? WHERE rowid = ?"
                db.execute(edit, (other(table, value), rowid))
                found = verify(world.layout.store_db).findings
                assert any(one.startswith(named) for one in found), f"{table}.{column}: {found}"
                db.execute(edit, (value, rowid))
                count += 1
            db.execute(f"CREATE TEMP TABLE kept AS SELECT * FROM {table} LIMIT 1")
            count += gone(db, world, table, named)
            db.execute("DROP TABLE kept")
    assert count > 35


def other(table: str, value: object) -> object:
    """A value of the same sort, and as inconspicuous as can be."""
    if isinstance(value, int):
        return value + 777
    if isinstance(value, bytes):
        return bytes([value[0] ^ 1]) + value[1:]
    if table == "controls" and isinstance(value, str) and value.startswith("{"):
        flipped = value.replace('"hold":true', '"hold":1')
        if '"hold":false' in value:
            return value.replace('"hold":false', '"hold":true')
        return flipped.replace('"hold":1', '"hold":false')
    return f"{value}~"


def gone(db: sqlite3.Connection, world: World, table: str, named: str) -> int:
    """Remove a row: named. Rows of archives have a guard, and a neutral control is no loss."""
    if table in ("audit_archives", "controls"):
        return 0
    db.execute(f"DELETE FROM {table} WHERE rowid = (SELECT min(rowid) FROM {table})")
    found = verify(world.layout.store_db).findings
    assert any(one.startswith(named) and "gone" in one for one in found), f"{table}: {found}"
    db.execute(f"INSERT INTO {table} SELECT * FROM temp.kept")
    return 1


def test_bytes_are_checked_by_the_hundred_thousand_a_second() -> None:
    """The figure itself is ``make bench-audit``'s; here, only that nothing is quadratic."""
    chance = Random(1)
    rows = []
    for index in range(40_000):
        stored = chance.randbytes(20) * 20
        rows.append((index, leaf_hash(stored), stored))
    tree = Tree()
    checkpoints = []
    for start in range(0, 40_000, 50):
        tree.extend([row[1] for row in rows[start : start + 50]])
        checkpoints.append(Checkpoint(size=tree.size, root=tree.root(), at_us=0, line=1))
    chain = Chain(checkpoints)
    began = time.process_time()
    for start in range(0, 40_000, 2000):
        assert list(chain.take(rows[start : start + 2000])) == []
    assert list(chain.end()) == []
    assert 40_000 / (time.process_time() - began) > 30_000
    assert chain.matched == 800

"""The audit's way out: verbatim, and checkable with nothing but the lines."""

from __future__ import annotations

import json
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from controller.audit.export import export, read
from controller.store.sql import SqlStore
from policies.audit import leaf_hash
from signals.errors import NotFound, Rejected
from tests.store.samples import stored_in


@pytest.fixture
def lines(store: SqlStore, path: Path) -> list[bytes]:
    for state in ("kept", "reverted"):
        stored_in(store, state, reason='Grüße ☂ "quoted" \\ \n')
    return list(export(path))


def test_any_json_parser_gets_back_exactly_what_was_hashed(
    store: SqlStore, path: Path, lines: list[bytes]
) -> None:
    stored = [
        bytes(row[0])
        for row in sqlite3.connect(path).execute(
            "SELECT stored FROM audit_entries ORDER BY leaf_index"
        )
    ]
    assert len(lines) == len(stored)
    for index, line in enumerate(lines):
        assert line.endswith(b"\n")
        plain = json.loads(line)
        assert plain["index"] == index
        assert plain["entry"].encode() == stored[index]
        assert plain["leaf_hash"] == leaf_hash(stored[index]).hex()


def test_an_export_reads_back_as_the_entries(store: SqlStore, lines: list[bytes]) -> None:
    with store.read() as tx:
        assert list(read(lines)) == tx.audit()
        assert list(read(line.decode() for line in lines)) == tx.audit()


def test_a_reader_that_has_some_entries_asks_for_the_rest(path: Path, lines: list[bytes]) -> None:
    assert list(export(path, after=2)) == lines[3:]
    assert list(export(path, after=len(lines) - 1)) == []


def test_an_export_may_be_drawn_by_one_thread_after_the_other(
    path: Path, lines: list[bytes]
) -> None:
    """A web server hands a stream's next piece to whichever worker is free."""
    stream = export(path)
    workers = [ThreadPoolExecutor(1) for _ in range(3)]
    drawn = [workers[i % 3].submit(next, stream).result(timeout=10) for i in range(len(lines))]
    assert drawn == lines
    with pytest.raises(StopIteration):
        next(stream)
    for worker in workers:
        worker.shutdown()


def test_an_edited_a_missing_and_a_broken_line_are_refused(lines: list[bytes]) -> None:
    edited = [*lines[:2], lines[2].replace(b"loop", b"pool"), *lines[3:]]
    with pytest.raises(Rejected, match="line 3 does not match its leaf hash"):
        list(read(edited))
    with pytest.raises(Rejected, match="line 2 is entry 2"):
        list(read([lines[0], *lines[2:]]))
    with pytest.raises(Rejected, match="line 1 is not an entry"):
        list(read([b"{}"]))


def test_a_row_that_is_no_entry_can_not_be_exported(
    store: SqlStore, path: Path, lines: list[bytes], tmp_path: Path
) -> None:
    store.close()
    copy = tmp_path / "copy.db"
    shutil.copy(path, copy)
    connection = sqlite3.connect(copy, isolation_level=None)
    connection.execute("DROP TRIGGER audit_entries_never_change")
    connection.execute("UPDATE audit_entries SET stored = 'text' WHERE leaf_index = 1")
    connection.close()
    with pytest.raises(Rejected, match="audit entry 1 can't be exported: str where bytes belong"):
        list(export(copy))
    with pytest.raises(NotFound):
        list(export(tmp_path / "nothing.db"))

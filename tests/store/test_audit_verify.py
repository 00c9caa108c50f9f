"""An insider with full access to the file edits one row; the verifier names it."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from controller.audit.verify import MAX_FINDINGS, TRIGGERS, Verification, verify
from controller.keys import KeyRequest, create
from controller.store.audit_file import DefinitionRow, EntryRow, KeyRow, PolicyRow
from controller.store.sql import SqlStore, open_store
from policies.audit import Entry, canonical, leaf_hash
from policies.merkle import Tree
from signals.errors import Broken, NotFound, Rejected
from signals.settings import MetricSettings
from tests.store.samples import NOW_US, stored_in

Tamper = Callable[[sqlite3.Connection], object]


@pytest.fixture
def copy(store: SqlStore, path: Path, tmp_path: Path) -> Path:
    """A store with a history, copied, and the copy's triggers dropped, as an insider would."""
    for state in ("kept", "reverted", "pending", "rejected"):
        stored_in(store, state)
    admin = KeyRequest(name="ann", role="admin")
    shop = KeyRequest(name="shop", role="producer", kinds=("business",))
    with store.write() as tx:
        create(tx, admin, actor="cli", at_us=NOW_US + 50)
        key, _ = create(tx, shop, actor="cli", at_us=NOW_US + 50)
    with store.write() as tx:
        tx.revoke_key(key.id, actor="key_ann", at_us=NOW_US + 60)
    declared(store)
    store.close()
    assert verify(path).clean
    copied = tmp_path / "copy.db"
    shutil.copy(path, copied)
    tamper(copied, lambda db: [db.execute(f"DROP TRIGGER {name}") for name in sorted(TRIGGERS)])
    return copied


def declared(store: SqlStore) -> None:
    """Three metrics: one in its second version, one retired, one as it was declared."""
    with store.write() as tx:
        for name in ("copied", "stars", "thumbs"):
            metric = MetricSettings(owner="growth")
            tx.declare(name, metric, managed_by="api", actor="ann", at_us=NOW_US + 70)
        wider = MetricSettings(high=5.0)
        tx.declare("stars", wider, managed_by="file", actor="file", at_us=NOW_US + 80)
        tx.retire("thumbs", actor="ann", at_us=NOW_US + 90)


def tamper(path: Path, how: Tamper) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    how(connection)
    connection.close()


def execute(path: Path, edit: str, *values: object) -> None:
    tamper(path, lambda db: db.execute(edit, values))


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    found = connection.execute(query).fetchall()
    connection.close()
    return found


def findings(path: Path) -> list[str]:
    """What is found beside the dropped triggers."""
    return [finding for finding in verify(path).findings if "trigger" not in finding]


def other(value: object) -> object:
    """A value of the same sort, and as inconspicuous as can be."""
    if isinstance(value, int):
        return value + 1
    if isinstance(value, bytes):
        return bytes([value[0] ^ 1]) + value[1:]
    return f"{value}x" if value in (None, "") else str(value)[:-1] + "~"


def edits(path: Path, table: str, columns: tuple[str, ...], key: str) -> int:
    """Edit every cell of every row in turn; each time that very row must be named."""
    label = {"audit_entries": "audit entry", "policies": "policy", "keys": "key"}[table]
    count = 0
    for row in rows(path, f"SELECT {key}, {', '.join(columns)} FROM {table}"):
        for column, value in zip(columns, row[1:], strict=True):
            edit = f"UPDATE {table} SET {column} = ? WHERE {key} = ?"
            execute(path, edit, other(value), row[0])
            named = [f for f in findings(path) if f.startswith(f"{label} {row[0]}:")]
            assert named, f"{table}.{column} of {row[0]} was edited and not named"
            back = row[0] if column != key else other(value)
            execute(path, edit, value, back)
            count += 1
    assert findings(path) == []
    return count


def test_every_edited_cell_of_the_audit_is_named(copy: Path) -> None:
    assert edits(copy, "audit_entries", EntryRow._fields[1:], "leaf_index") == 7 * 22


def test_every_edited_cell_of_a_policy_is_named(copy: Path) -> None:
    assert edits(copy, "policies", PolicyRow._fields, "id") == 7 * 4


def test_every_edited_cell_of_a_key_is_named(copy: Path) -> None:
    assert edits(copy, "keys", KeyRow._fields, "id") == 3 * 2


def test_every_edited_cell_of_a_metric_is_named(copy: Path) -> None:
    count = 0
    for rowid, name, version, *cells in rows(copy, "SELECT rowid, * FROM metric_definitions"):
        for column, value in zip(DefinitionRow._fields, (name, version, *cells), strict=True):
            edit = f"UPDATE metric_definitions SET {column} = ? WHERE rowid = ?"
            edited = value + 7 if isinstance(value, int) else other(value or "7")
            execute(copy, edit, edited, rowid)
            named = [found for found in findings(copy) if found.startswith(f"metric {name}@")]
            assert named, f"{column} of {name}@{version} was edited and not named"
            execute(copy, edit, value, rowid)
            count += 1
    assert findings(copy) == []
    assert count == 7 * 4


def test_a_version_that_is_gone_or_slipped_in_is_named(copy: Path) -> None:
    execute(copy, "DELETE FROM metric_definitions WHERE name = 'stars' AND version = 1")
    execute(
        copy,
        """INSERT INTO metric_definitions SELECT name, 2, body, managed_by, owner, from_us, NULL
           FROM metric_definitions WHERE name = 'copied'""",
    )
    assert findings(copy) == [
        "metric copied@2: the row is there, the audit has no entry of it",
        "metric stars@1: the audit has it, the row is gone",
    ]


def test_a_change_before_any_declaration_is_named_even_when_all_its_hashes_agree(
    copy: Path,
) -> None:
    query = "SELECT stored FROM audit_entries WHERE action = 'metric.declared'"
    ((stored,), *_) = rows(copy, query)
    assert isinstance(stored, bytes)
    entry = msgspec.json.decode(stored, type=Entry)
    rewrite(copy, msgspec.structs.replace(entry, action="metric.changed"))
    wrong = f"audit entry {entry.index}: metric copied can't be metric.changed here"
    assert wrong in findings(copy)


def test_every_edited_byte_of_an_entry_is_named(copy: Path) -> None:
    ((stored,),) = rows(copy, "SELECT stored FROM audit_entries WHERE leaf_index = 3")
    assert isinstance(stored, bytes)
    for place in range(0, len(stored), 5):
        edited = stored[:place] + bytes([stored[place] ^ 0x01]) + stored[place + 1 :]
        put_stored(copy, 3, edited)
        assert "audit entry 3: stored bytes do not match their leaf hash" in findings(copy)
    put_stored(copy, 3, stored)
    assert findings(copy) == []


def put_stored(path: Path, index: int, stored: bytes) -> None:
    execute(path, "UPDATE audit_entries SET stored = ? WHERE leaf_index = ?", stored, index)


def test_a_removed_entry_is_missed_wherever_it_was(copy: Path) -> None:
    ((size,),) = rows(copy, "SELECT size FROM audit_head")
    assert isinstance(size, int)
    remove = "DELETE FROM audit_entries WHERE leaf_index = ?"
    for index in range(size - 1):
        cut = copy.with_name(f"cut{index}.db")
        shutil.copy(copy, cut)
        execute(cut, remove, index)
        assert f"audit entry {index}: it is missing" in findings(cut)
        cut.unlink()
    execute(copy, remove, size - 1)
    assert f"audit head: it says {size} entries, the last index makes {size - 1}" in findings(copy)


def test_an_end_cut_off_with_its_head_leaves_the_row_behind(copy: Path) -> None:
    """The cut takes a recorded move, so the policy's row is ahead of what the audit says."""
    query = "SELECT max(leaf_index), subject FROM audit_entries WHERE action = 'policy.rejected'"
    ((index, policy_id),) = rows(copy, query)
    execute(copy, "DELETE FROM audit_entries WHERE leaf_index >= ?", index)
    execute(copy, "UPDATE audit_head SET size = ?", index)
    assert f"policy {policy_id}: row says rejected, audit says proposed" in findings(copy)


def test_a_policy_that_is_gone_or_slipped_in_is_named(copy: Path) -> None:
    ((gone,), (cloned,), *_) = rows(copy, "SELECT id FROM policies ORDER BY id")
    execute(copy, "DELETE FROM policies WHERE id = ?", gone)
    tamper(
        copy,
        lambda db: db.execute(
            """INSERT INTO policies (id, target, knob, state, rev, updated_us, body)
               SELECT 'pol_new', target, knob, state, rev, updated_us, body
               FROM policies WHERE id = ?""",
            (cloned,),
        ),
    )
    assert findings(copy) == [
        "policy pol_new: the row is there, the audit has no entry of it",
        f"policy {gone}: audit says kept, the row is gone",
    ]


def test_a_key_slipped_in_is_named(copy: Path) -> None:
    tamper(
        copy,
        lambda db: db.execute(
            "INSERT INTO keys SELECT 'key_mine', zeroblob(32), body FROM keys LIMIT 1"
        ),
    )
    assert findings(copy) == ["key key_mine: the row is there, the audit has no entry of it"]


def test_an_illegal_move_is_named_even_when_all_its_hashes_agree(copy: Path) -> None:
    """Rewritten with hash and columns: proposed → kept, without ever having been tried."""
    query = "SELECT stored FROM audit_entries WHERE action = 'policy.rejected'"
    ((stored,),) = rows(copy, query)
    assert isinstance(stored, bytes)
    entry = msgspec.json.decode(stored, type=Entry)
    forged = msgspec.structs.replace(
        entry, action="policy.kept", details=entry.details | {"after": "kept"}
    )
    rewrite(copy, forged)
    assert (
        f"audit entry {entry.index}: policy {entry.subject} goes from proposed to kept, "
        "which the lifecycle does not allow"
    ) in findings(copy)


def rewrite(path: Path, entry: Entry) -> None:
    """Everything of an entry, hash included: what only a root kept elsewhere can show."""
    stored = canonical(entry)
    edit = "UPDATE audit_entries SET action = ?, actor = ?, stored = ?, leaf_hash = ? "
    edit += "WHERE leaf_index = ?"
    values = (entry.action, entry.actor, stored, leaf_hash(stored), entry.index)
    tamper(path, lambda db: db.execute(edit, values))


def test_a_wholly_rewritten_entry_shows_only_in_the_root(copy: Path) -> None:
    """The limit that the verifier's docstring admits, and what is left to compare."""
    before = verify(copy)
    ((stored,),) = rows(copy, "SELECT stored FROM audit_entries WHERE leaf_index = 2")
    assert isinstance(stored, bytes)
    rewrite(copy, msgspec.structs.replace(msgspec.json.decode(stored, type=Entry), actor="bob"))
    assert findings(copy) == []
    after = verify(copy)
    assert after.root != before.root
    assert after.entries == before.entries


def test_the_root_is_the_tree_hash_of_what_is_stored(copy: Path) -> None:
    tree = Tree()
    for (stored,) in rows(copy, "SELECT stored FROM audit_entries ORDER BY leaf_index"):
        assert isinstance(stored, bytes)
        tree.add(leaf_hash(stored))
    checked = verify(copy)
    assert (checked.root, checked.entries) == (tree.root().hex(), tree.size)
    assert (checked.policies, checked.keys, checked.definitions) == (4, 2, 4)


def test_dropped_triggers_are_named(copy: Path) -> None:
    assert set(verify(copy).findings) == {
        f"database: the trigger {name} is missing" for name in TRIGGERS
    }


@pytest.mark.parametrize("value", [None, 7, "text", b"\xff\x00", b"{}"])
def test_rows_of_the_wrong_sort_are_findings_and_no_crash(copy: Path, value: object) -> None:
    for table, column, where, name in (
        ("audit_entries", "stored", "leaf_index = 2", "audit entry 2:"),
        ("policies", "body", "rowid = 2", "policy pol_"),
        ("metric_definitions", "body", "rowid = 2", "metric stars@1"),
    ):
        edited = copy.with_name(f"{table}.db")
        shutil.copy(copy, edited)
        without_null_check(edited, table)
        edit = f"UPDATE {table} SET {column} = ? WHERE {where}"
        execute(edited, edit, value)
        assert any(finding.startswith(name) for finding in findings(edited))


def without_null_check(path: Path, table: str) -> None:
    """Whoever owns the file owns its schema too."""
    edit = "UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '') WHERE name = ?"

    def allow(db: sqlite3.Connection) -> None:
        db.execute("PRAGMA writable_schema = ON")
        db.execute(edit, (table,))

    tamper(path, allow)


def test_findings_have_a_bound_and_are_counted_beyond_it(copy: Path) -> None:
    execute(copy, "UPDATE audit_entries SET leaf_index = leaf_index + 5000")
    checked = verify(copy)
    assert len(checked.findings) == MAX_FINDINGS < checked.found
    assert not checked.clean


def test_a_live_store_is_verified_beside_its_writer(store: SqlStore, path: Path) -> None:
    stored_in(store, "kept")
    with store.write() as tx:
        tx.append_audit(
            at_us=NOW_US + 50, actor="a", action="x.y", subject="s", target="t", details={}
        )
        during = verify(path)
    after = verify(path)
    assert during.clean
    assert after.clean
    assert after.entries == during.entries + 1


def test_a_copy_where_nobody_may_write_can_be_verified(copy: Path, tmp_path: Path) -> None:
    media = tmp_path / "media"
    media.mkdir()
    shutil.copy(copy, media / "store.db")
    media.chmod(0o555)
    (media / "store.db").chmod(0o444)
    assert verify(media / "store.db") == verify(copy)
    media.chmod(0o755)


def test_an_empty_store_is_clean(path: Path) -> None:
    open_store(f"sqlite:///{path}").close()
    checked = verify(path)
    assert checked == Verification(
        entries=0,
        root=Tree().root().hex(),
        policies=0,
        keys=0,
        definitions=0,
        findings=(),
        found=0,
    )


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no store at"):
        verify(tmp_path / "nothing.db")
    tamper(tmp_path / "other.db", lambda db: db.execute("CREATE TABLE t (x)"))
    with pytest.raises(Rejected, match="is not a store"):
        verify(tmp_path / "other.db")
    (tmp_path / "noise.db").write_bytes(bytes(range(256)) * 64)
    with pytest.raises(Broken, match="not a database"):
        verify(tmp_path / "noise.db")

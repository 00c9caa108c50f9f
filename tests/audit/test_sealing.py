"""Sealed entries: their bytes go to a file, and proofs, history and verification go on."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
import zstandard

from controller.audit.archives import Archives, file_digest, read_archive, write_archive
from controller.audit.export import export, read
from controller.audit.verify import verify_export
from controller.store.port import AuditQuery
from policies.audit import Entry, leaf_hash
from policies.proofs import proves_inclusion
from signals.errors import Broken, Conflict, Rejected
from tests.audit.conftest import World, put_back, save
from tests.store.samples import NOW_US, stored_in


def sealed(world: World, entries: int = 40) -> None:
    """Sixty entries, policies among them, of which the oldest are sealed."""
    with world.desk() as desk:
        assert world.store is not None
        for state in ("kept", "reverted", "pending"):
            stored_in(world.store, state)
        world.append(60 - desk.tree.size)
        desk.publisher.publish()
        archive = desk.sealer.seal(by="ann", entries=entries)
        assert (archive.first, archive.last) == (0, entries - 1)
        desk.publisher.publish()


def test_the_file_holds_the_very_bytes_and_the_table_none_of_them(world: World) -> None:
    before = None
    with world.desk():
        world.append(60)
        before = list(export(world.layout.store_db))
    sealed(world)
    path = next(world.layout.archives.iterdir())
    assert path.name == "audit-000000000000-000000000039.jsonl.zst"
    unpacked = zstandard.ZstdDecompressor().stream_reader(path.open("rb")).read()
    assert unpacked == b"".join(before[:40])
    connection = sqlite3.connect(world.layout.store_db)
    ((left,),) = connection.execute("SELECT count(*) FROM audit_entries WHERE stored IS NULL")
    assert left == 40
    connection.close()


def test_the_log_is_verified_with_and_without_the_archive(world: World) -> None:
    sealed(world)
    found = world.verified(archives=True)
    assert (found.findings, found.archived) == ((), 0)
    found = world.verified()
    assert (found.findings, found.archived) == ((), 40)
    assert any("40 entries are in archives that are not at hand" in note for note in found.notes)
    files = list(world.layout.archives.iterdir())
    lines = list(export(world.layout.store_db))
    assert verify_export(lines, outside=world.kept_outside()).archived == 40
    whole = verify_export(lines, outside=world.kept_outside(), archives=files)
    assert (whole.findings, whole.archived) == ((), 0)
    assert sum(entry.archived for entry in read(lines)) == 40


def test_history_answers_for_archived_entries_in_full_where_the_file_is_at_hand(
    world: World,
) -> None:
    sealed(world)
    with world.desk() as desk:
        assert world.store is not None
        with world.store.read() as tx:
            bare = tx.audit(limit=3)[1]
            assert (bare.archived, bare.details, bare.action) == (True, {}, "policy.proposed")
            assert tx.audit(after=0, limit=1)[0] == bare
            assert tx.audit_lines(AuditQuery(before=2, limit=1))[0].details is None
        world.store.at_hand = desk.archives.stored
        with world.store.read() as tx:
            whole = tx.audit(limit=3)[1]
            assert not whole.archived
            assert whole.details["policy"]["knob"] == "active_cap"
            assert tx.audit_lines(AuditQuery(before=2, limit=1))[0].details == whole.details
            filled = desk.archives.filled(tx.archives(), [bare])
        assert filled == [whole]


def test_proofs_of_sealed_entries_hold(world: World) -> None:
    sealed(world)
    with world.desk() as desk:
        desk.tree.sync()
        leaf, path = desk.tree.inclusion(7, 60)
        assert proves_inclusion(leaf, 7, 60, path, desk.tree.root_at(60))


def test_what_is_sealed_goes_on_where_the_archive_before_ended(world: World) -> None:
    with world.desk() as desk:
        world.append(30)
        first = desk.sealer.seal(by="ann", entries=10)
        second = desk.sealer.seal(by="ann", before_us=NOW_US + 25_000)
        assert (first.last, second.first) == (9, 10)
        with pytest.raises(Conflict, match="nothing to seal"):
            desk.sealer.seal(by="ann", before_us=NOW_US)
        last = desk.sealer.seal(by="ann", entries=1000)
        with world.store.read() as tx:  # type: ignore[union-attr]
            assert last.last == tx.audit_size() - 3
        with pytest.raises(Rejected, match="either before which time, or how many"):
            desk.sealer.seal(by="ann")
        desk.publisher.publish()
    assert world.verified(archives=True).findings == ()


def test_two_who_seal_at_once_seal_one_after_the_other(world: World) -> None:
    with world.desk() as desk:
        world.append(60)
        with ThreadPoolExecutor(4) as people:
            made = list(people.map(lambda n: desk.sealer.seal(by=f"p{n}", entries=10), range(4)))
        assert sorted((one.first, one.last) for one in made) == [
            (0, 9),
            (10, 19),
            (20, 29),
            (30, 39),
        ]
        desk.publisher.publish()
    assert world.verified(archives=True).findings == ()


def test_bytes_that_a_crash_left_in_the_table_go_with_the_next_seal(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world.desk() as desk:
        world.append(30)
        with monkeypatch.context() as dying:
            dying.setattr(desk.sealer, "_drop", lambda archive: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                desk.sealer.seal(by="ann", entries=10)
        desk.publisher.publish()
        assert world.verified(archives=True).findings == ()
        assert world.verified().archived == 0
        desk.sealer.finish()
        assert world.verified().archived == 10


def test_an_archive_that_was_altered_or_bytes_that_no_archive_holds_are_named(
    world: World,
) -> None:
    sealed(world)
    path = next(world.layout.archives.iterdir())
    lines = list(read_archive(path))
    forged = [
        (line.index, leaf_hash((line.entry or "").encode()), (line.entry or "").encode())
        for line in lines
    ]
    entry = msgspec.json.decode(forged[5][2], type=Entry)
    bytes_ = forged[5][2].replace(entry.actor.encode(), b"eve")
    forged[5] = (5, leaf_hash(bytes_), bytes_)
    write_archive(path, forged)
    found = world.verified(archives=True)
    assert f"archive {path.name}: it is not the file that was sealed" in found.findings
    assert "audit entry 5: stored bytes do not match their leaf hash" in found.findings
    connection = sqlite3.connect(world.layout.store_db, isolation_level=None)
    connection.execute("DROP TRIGGER audit_entries_never_change")
    connection.execute("UPDATE audit_entries SET stored = NULL WHERE leaf_index = 50")
    connection.close()
    assert "audit entry 50: no bytes, and no archive holds it" in world.verified().findings


def test_an_entry_that_does_not_match_its_leaf_is_never_sealed(world: World) -> None:
    with world.desk() as desk:
        world.append(10)
        connection = sqlite3.connect(world.layout.store_db, isolation_level=None)
        connection.execute("DROP TRIGGER audit_entries_never_change")
        connection.execute("UPDATE audit_entries SET leaf_hash = zeroblob(32) WHERE leaf_index = 3")
        connection.close()
        with pytest.raises(Broken, match="audit entry 3 does not match its leaf hash"):
            desk.sealer.seal(by="ann", entries=5)


def test_a_frame_is_enough_to_read_one_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.audit.archives.FRAME_ENTRIES", 16)
    from controller.store.past_port import Archive

    entries = [(n, leaf_hash(b"%d" % n), b"%d" % n) for n in range(100)]
    path = tmp_path / "audit-1.jsonl.zst"
    written = write_archive(path, entries)
    assert (len(written.frames), written.entries) == (7, 100)
    assert (written.sha256, written.bytes) == (file_digest(path), path.stat().st_size)
    archive = Archive(
        first=0,
        last=99,
        file=path.name,
        sha256=written.sha256,
        bytes=written.bytes,
        frame_entries=16,
        frames=written.frames,
        at_us=0,
        by="ann",
    )
    at_hand = Archives(tmp_path)
    assert [at_hand.stored([archive], n) for n in range(100)] == [one[2] for one in entries]
    assert at_hand.stored([archive], 100) is None
    assert Archives(tmp_path / "elsewhere").stored([archive], 5) is None
    path.write_bytes(b"noise")
    with pytest.raises(Rejected, match="is no archive"):
        list(read_archive(path))


def test_an_export_without_the_archive_that_has_the_restore_s_entry_is_no_alarm(
    world: World, tmp_path: Path
) -> None:
    with world.desk() as desk:
        world.append(5)
        desk.publisher.publish()
    save(world, tmp_path / "backup.db")
    with world.desk() as desk:
        world.append(5)
        desk.publisher.publish()
    put_back(world, tmp_path / "backup.db")
    with world.desk() as desk:
        desk.publisher.restored(by="ann", reason="the disk failed")
        world.append(5)
        desk.sealer.seal(by="ann", entries=9)
        desk.publisher.publish()
    lines = list(export(world.layout.store_db))
    assert verify_export(lines, outside=world.kept_outside()).findings == ()
    assert world.verified().findings == ()
    assert world.verified(archives=True).findings == ()

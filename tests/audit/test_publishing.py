"""Heads outside: soon, at least every interval, and never over a log that was altered."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from controller.audit.desk import publishing
from controller.audit.signing import Signer, make_audit_key
from controller.audit.sinks import FileSink
from policies.heads import Head, parsed, signed_by
from policies.published import read_published
from signals.errors import Conflict, Rejected, Unavailable
from signals.events import MICROS
from tests.audit.conftest import World
from tests.audit.sink_server import HeadServer


@pytest.fixture
def server() -> Iterator[HeadServer]:
    made = HeadServer()
    yield made
    made.close()


def rewrite(world: World, index: int, *, dropping: str = "never_change") -> None:
    """Give an entry another leaf hash, as an insider would."""
    connection = sqlite3.connect(world.layout.store_db, isolation_level=None)
    connection.execute(f"DROP TRIGGER audit_entries_{dropping}")
    connection.execute(
        "UPDATE audit_entries SET leaf_hash = zeroblob(32) WHERE leaf_index = ?", (index,)
    )
    connection.close()


def test_a_head_is_signed_by_the_key_of_its_file_over_the_log_as_it_is(world: World) -> None:
    with world.desk() as desk:
        world.append(5)
        head = desk.publisher.publish()
        assert head is not None
        assert (head.size, head.root) == (desk.tree.size, desk.tree.head()[1].hex())
    line, statement = parsed(world.heads.read_bytes().splitlines()[0])
    assert statement == head
    keys = world.kept_outside().keys
    assert signed_by(line, keys.keys[0].id, keys.by_id())
    assert stat.S_IMODE(world.layout.key("audit").stat().st_mode) == 0o600
    private = world.layout.key("audit").read_text().strip().encode()
    assert private not in world.layout.store_db.read_bytes()


def test_a_head_comes_after_each_entry_and_else_once_an_interval(world: World) -> None:
    with world.desk(interval_s=30) as desk:
        assert desk.publisher.publish() is not None
        assert desk.publisher.publish() is None
        world.append()
        assert desk.publisher.publish() is not None
        world.now_us += 29 * MICROS
        assert desk.publisher.publish() is None
        world.now_us += 2 * MICROS
        again = desk.publisher.publish()
    assert again is not None
    lines = [parsed(line)[1] for line in world.heads.read_bytes().splitlines()]
    assert [one.size for one in lines if isinstance(one, Head)] == [1, 2, 2]


def test_the_thread_publishes_by_itself(world: World) -> None:
    with world.desk(soon_s=0.05) as desk, publishing(desk, threading.Event()):
        world.append(3)
        until = time.monotonic() + 10
        while (status := desk.publisher.status()).size < 4 or status.unpublished:
            assert time.monotonic() < until
            time.sleep(0.02)
        assert status.alarm is None
    with world.desk(soon_s=60) as desk:
        with publishing(desk, threading.Event()):
            world.append(3)
        assert desk.publisher.status().unpublished == 0, "the end is published when it stops"


def test_the_end_is_published_without_rests_between_blocks(world: World) -> None:
    with world.desk(scrub_rest_ms=100, soon_s=60) as desk:
        world.append(256 * 20)
        began_s = time.monotonic()
        with publishing(desk, threading.Event()):
            pass
        assert time.monotonic() - began_s < 20 * 0.1, "no more than without any rest"
        assert desk.publisher.status().unpublished == 0


def test_a_block_that_was_rewritten_is_not_forgotten_for_the_next_ones(world: World) -> None:
    with world.desk(scrub_blocks=1) as desk:
        world.append(3 * 256)
        assert desk.publisher.publish() is not None
        rewrite(world, 17)
        for _ in range(3):
            world.append()
            desk.publisher.publish()
        alarm = "leaf hashes of entries 0–255 are not the ones that were there before"
        for _ in range(3):
            world.append()
            assert desk.publisher.publish() is None
            assert desk.publisher.status().alarm == alarm
            with pytest.raises(Unavailable, match="can't prove anything"):
                desk.tree.inclusion(300, desk.tree.size + 1)


def test_nothing_is_signed_over_a_rewritten_log_while_it_runs_or_after_a_restart(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    with world.desk(scrub_blocks=10) as desk:
        world.append(300)
        assert desk.publisher.publish() is not None
        rewrite(world, 17)
        world.append()
        assert desk.publisher.publish() is None
        alarm = desk.publisher.status().alarm
        assert alarm == "leaf hashes of entries 0–255 are not the ones that were there before"
        with pytest.raises(Conflict, match="no key is rotated during an alarm"):
            desk.publisher.rotate(by="ann")
        with pytest.raises(Unavailable, match="can't prove anything"):
            desk.tree.inclusion(3, 10)
    assert "AUDIT ALARM" in caplog.text
    lines = world.heads.read_bytes()
    with world.desk() as desk:
        assert desk.publisher.publish() is None
        assert desk.publisher.status().alarm == (
            "the first 301 entries are not the ones whose head was published"
        )
    assert world.heads.read_bytes() == lines


def test_an_edited_last_entry_is_found_when_the_next_one_comes(world: World) -> None:
    with world.desk() as desk:
        world.append(4)
        desk.publisher.publish()
        rewrite(world, 4)
        world.append()
        assert desk.publisher.publish() is None
        assert desk.publisher.status().alarm == "entry 4 is not the one that was there before"


def test_a_sink_that_is_gone_with_our_memory_still_there_does_not_help_a_forger(
    world: World,
) -> None:
    with world.desk() as desk:
        world.append(4)
        desk.publisher.publish()
    world.heads.unlink()
    rewrite(world, 2)
    with world.desk() as desk:
        assert desk.publisher.publish() is None


def test_a_torn_line_is_ended_and_passed_over(world: World) -> None:
    with world.desk() as desk:
        world.append()
        desk.publisher.publish()
        with world.heads.open("ab") as file:
            file.write(b'{"body":"{')
        world.append()
        assert desk.publisher.publish() is not None
    found = world.verified()
    assert found.findings == ()
    assert found.heads == 2
    assert any("torn" in note for note in found.notes)


def test_a_sink_beside_the_store_warns_and_one_on_this_machine_too(
    world: World, server: HeadServer, caplog: pytest.LogCaptureFixture
) -> None:
    with world.desk(sink=None, soon_s=0.05) as desk, publishing(desk, threading.Event()):
        warning = desk.publisher.status().warning
        assert warning is not None
        assert "beside the store: who owns one owns both" in warning
        until = time.monotonic() + 10
        while "beside the store" not in caplog.text and time.monotonic() < until:
            time.sleep(0.02)
    assert "AUDIT: the audit's heads go to" in caplog.text
    with world.desk(sink=server.url) as desk:
        assert "which is this machine" in (desk.publisher.status().warning or "")
    assert FileSink(Path(os.devnull), warning=None).warning is None


def test_a_sink_that_can_not_be_is_refused_by_name(world: World) -> None:
    for wrong, field in (
        ({"sink": str(world.outside / "no" / "heads.jsonl")}, "audit.sink"),
        ({"sink": "http://localhost:1/", "sink_key_file": Path("/nowhere")}, "audit.sink_key_file"),
    ):
        with pytest.raises(Rejected) as refused, world.desk(**wrong):
            raise AssertionError("it opened")
        assert refused.value.field == field


def test_neither_the_sink_s_url_nor_its_key_is_shown_to_anybody(
    world: World, server: HeadServer, tmp_path: Path
) -> None:
    carried = server.url.replace("//", "//robot:hunter2@").replace("/heads", "/canary/heads?t=x9")
    with world.desk(sink=carried) as desk:
        world.append()
        assert desk.publisher.publish() is not None
        shown = str(desk.publisher.status().shown())
    assert not any(secret in shown for secret in ("hunter2", "robot", "canary", "x9"))
    key = tmp_path / "sink.key"
    for url, content in (
        ("http://[canary", b"good"),
        ("https://host:99999/canary", b"good"),
        ("https:///canary", b"good"),
        (server.url, b"canary\nsecond line"),
        (server.url, "canary\u00e9".encode()),
        (server.url, b"canary\xff"),
        (server.url, b""),
    ):
        key.write_bytes(content)
        with pytest.raises(Rejected) as refused, world.desk(sink=url, sink_key_file=key):
            raise AssertionError(f"{url} opened with {content!r}")
        assert str(refused.value.field).startswith("audit.sink")
        assert "canary" not in str(refused.value.problem())


def test_a_server_is_asked_again_and_the_newest_head_says_what_the_lost_ones_would_have(
    world: World, server: HeadServer, tmp_path: Path
) -> None:
    (tmp_path / "sink.key").write_text("secret\n")
    settings = {"sink": server.url, "sink_attempts": 2, "sink_key_file": tmp_path / "sink.key"}
    with world.desk(**settings) as desk:
        world.append(3)
        server.fail = 1
        assert desk.publisher.publish() is not None
        assert server.posts == 2
        server.fail = 2
        world.append(3)
        with pytest.raises(Unavailable, match="answered 503"):
            desk.publisher.publish()
        assert desk.publisher.status().sink_error == "the audit's sink answered 503"
        assert desk.publisher.status().unpublished == 3
        world.append(3)
        assert desk.publisher.publish() is not None
        assert desk.publisher.status().sink_error is None
    keys = world.kept_outside().keys if world.heads.exists() else desk.signer.public
    published = read_published(server.lines, keys)
    assert [one.size for one in published.checkpoints] == [4, 10]
    assert set(server.keys) == {"Bearer secret"}


def test_the_head_is_shown_while_the_sink_hangs(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs, end = threading.Event(), threading.Event()

    def hanging(_: bytes) -> None:
        hangs.set()
        assert end.wait(30)
        raise Unavailable("no answer in time")

    with world.desk() as desk, ThreadPoolExecutor(2) as people:
        world.append()
        assert desk.publisher.publish() is not None
        world.append()
        monkeypatch.setattr(desk.sink, "append", hanging)
        publishing_it = people.submit(desk.publisher.publish)
        assert hangs.wait(30)
        try:
            shown = people.submit(desk.publisher.status).result(timeout=10)
        finally:
            end.set()
        assert (shown.size, shown.unpublished) == (3, 1)
        with pytest.raises(Unavailable):
            publishing_it.result(timeout=10)


@pytest.mark.parametrize("mute", [True, False])
def test_a_clock_that_goes_back_after_a_lost_answer_is_no_alarm(
    world: World, server: HeadServer, monkeypatch: pytest.MonkeyPatch, mute: bool
) -> None:
    server.mute = mute
    with world.desk(sink=server.url) as desk:
        bring = desk.sink.append

        def lost(line: bytes) -> None:
            bring(line)
            raise Unavailable("the answer was lost")

        world.append(3)
        assert desk.publisher.publish() is not None
        world.append(3)
        monkeypatch.setattr(desk.sink, "append", lost)
        with pytest.raises(Unavailable):
            desk.publisher.publish()
        monkeypatch.undo()
        world.now_us -= 60 * MICROS
        assert desk.publisher.publish() is not None
        keys = desk.signer.public
    assert len(server.lines) == 3
    assert read_published(server.lines, keys).findings == ()


@pytest.mark.parametrize("mute", [True, False])
def test_a_server_s_heads_count_after_a_restart_read_back_or_remembered(
    world: World, server: HeadServer, mute: bool
) -> None:
    server.mute = mute
    with world.desk(sink=server.url) as desk:
        world.append(4)
        desk.publisher.publish()
    if not mute:
        world.layout.audit_memory.unlink()
    rewrite(world, 1)
    with world.desk(sink=server.url) as desk:
        assert desk.publisher.publish() is None
    assert len(server.lines) == 1


def test_the_signing_key_is_made_once_and_a_lost_one_is_listed_beside_its_successor(
    world: World,
) -> None:
    assert make_audit_key(world.layout, 1)
    assert not make_audit_key(world.layout, 2)
    first = Signer(world.layout)
    world.layout.key("audit").unlink()
    assert make_audit_key(world.layout, 3)
    second = Signer(world.layout)
    assert second.public.log == first.public.log
    assert [key.id for key in second.public.keys] == [first.key, second.key]
    world.layout.key("audit").write_text("not a key")
    with pytest.raises(Rejected, match="holds no Ed25519 key"):
        Signer(world.layout)

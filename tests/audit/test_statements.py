"""Rotations and restores: followed when they are signed, named when they are not."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controller.audit.export import export, read
from controller.audit.verify import Outside, verify_export
from docs.verify_audit import published
from policies.heads import (
    Head,
    PublicKey,
    PublicKeys,
    Restore,
    Rotation,
    Statement,
    key_id,
    public_bytes,
    signed,
)
from policies.published import Published, encode_keys, read_published
from signals.errors import Conflict, Unavailable
from tests.audit.conftest import World, put_back, save


def test_heads_of_a_new_key_are_followed_from_the_first_key_alone(world: World) -> None:
    with world.desk() as desk:
        world.append(3)
        desk.publisher.publish()
        first = desk.signer.key
        rotation = desk.publisher.rotate(by="ann")
        assert (rotation.key, rotation.new) == (first, desk.signer.key)
        world.append(3)
        desk.publisher.publish()
    outside = world.kept_outside()
    only_first = msgspec.structs.replace(outside.keys, keys=outside.keys.keys[:1])
    found = verify_export(
        list(export(world.layout.store_db)), outside=Outside(lines=outside.lines, keys=only_first)
    )
    assert found.findings == ()
    assert any(f"key {first} handed over to {rotation.new}" in note for note in found.notes)
    entries = list(read(export(world.layout.store_db)))
    assert "audit.key_rotated" in {entry.action for entry in entries}
    assert not world.layout.key("audit.next").exists()


def test_a_rotation_takes_place_when_the_sink_is_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(line: bytes) -> None:
        raise Unavailable("the sink is away")

    with world.desk() as desk:
        world.append()
        desk.publisher.publish()
        before, bring = desk.signer.key, desk.sink.append
        with monkeypatch.context() as broken:
            broken.setattr(
                desk.sink, "append", lambda line: (away if b"rotation" in line else bring)(line)
            )
            with pytest.raises(Unavailable):
                desk.publisher.rotate(by="ann")
        assert desk.signer.key == before
        assert world.layout.audit_pending.exists()
    with world.desk() as desk:
        assert desk.publisher.publish(now=True) is not None
        assert desk.signer.key != before
    assert world.verified().findings == ()
    assert not world.layout.audit_pending.exists()


def test_a_statement_whose_answer_was_lost_is_sent_again_and_counts_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world.desk() as desk:
        world.append()
        desk.publisher.publish()
        old = desk.signer.key
        with monkeypatch.context() as dying:
            dying.setattr(desk.signer, "adopt_next", lambda at_us: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                desk.publisher.rotate(by="ann")
    with world.desk() as desk:
        world.append()
        assert desk.publisher.publish() is not None
        assert desk.signer.key != old
    lines = world.heads.read_text().splitlines()
    assert sum("rotation" in one for one in lines) == 2
    assert world.verified().findings == ()
    said: list[str] = []
    published(lines, json.loads(encode_keys(world.kept_outside().keys)), said)
    assert said == []


def test_a_restore_is_a_rollback_until_somebody_signs_for_it(world: World, tmp_path: Path) -> None:
    with world.desk() as desk:
        world.append(5)
        desk.publisher.publish()
    backup = tmp_path / "backup.db"
    save(world, backup)
    with world.desk() as desk:
        for _ in range(3):
            world.append(2)
            desk.publisher.publish()
        with pytest.raises(Conflict, match="nothing is given up"):
            desk.publisher.restored(by="ann", reason="by mistake")
    put_back(world, backup)
    gone = "audit entries 6–11: gone; heads line 4 was signed over 12 entries, here are 6"
    assert world.verified().findings == (gone,)
    with world.desk() as desk:
        assert desk.publisher.publish() is None
        assert desk.publisher.status().alarm == (
            "entries 6–11 are gone: a head of 12 entries was published"
        )
        world.append(9)
        assert desk.publisher.publish() is None
        assert world.verified().found == 1
        assert world.verified().findings[0] == (
            "audit entries 6–7: one or more are not as published: the tree hash of the first 8 is"
            " not that of heads line 2, nor do 2 later heads agree"
        )
        restore = desk.publisher.restored(by="ann", reason="the disk failed")
        assert (restore.size, restore.last_size) == (6, 12)
        assert desk.publisher.status().alarm is None
        world.append()
        desk.publisher.publish()
    found = world.verified()
    assert found.findings == ()
    assert (
        "a backup was put back by ann (the disk failed): the log went on from entry 6; heads of up"
        " to 12 entries are given up"
    ) in found.notes


def test_a_restore_statement_whose_entry_is_missing_is_named(world: World, tmp_path: Path) -> None:
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
    lines = list(export(world.layout.store_db))[:6]
    found = verify_export(lines, outside=world.kept_outside())
    assert (
        "the restore to 6 entries by ann is signed outside, and the log has no entry of it"
    ) in found.findings


KEYS = [Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in (1, 2, 3)]
IDS = [key_id(public_bytes(key)) for key in KEYS]
TRUSTED = PublicKeys(
    log="log_1",
    keys=(PublicKey(id=IDS[0], public=public_bytes(KEYS[0]).hex(), from_us=0),),
)
ROOTS = ["aa" * 32, "bb" * 32, "cc" * 32]


def head(size: int, at_us: int, *, root: str = ROOTS[0], key: int = 0, log: str = "log_1") -> bytes:
    return line(Head(log=log, size=size, root=root, at_us=at_us, key=IDS[key]), key)


def line(statement: Statement, *signers: int) -> bytes:
    return signed(statement, *(KEYS[one] for one in signers))


def rotation(at_us: int, *signers: int, new: int = 1, public: int = 1) -> bytes:
    hexed = public_bytes(KEYS[public]).hex()
    made = Rotation(log="log_1", at_us=at_us, key=IDS[0], new=IDS[new], public=hexed, by="ann")
    return line(made, *signers)


def restore(size: int, at_us: int, *, last: int, root: str = ROOTS[0]) -> bytes:
    return line(
        Restore(
            log="log_1",
            at_us=at_us,
            key=IDS[0],
            size=size,
            root=root,
            last_size=last,
            last_root=ROOTS[0],
            by="ann",
            reason="why not",
        ),
        0,
    )


def followed(*lines: bytes) -> Published:
    return read_published(lines, TRUSTED)


def test_what_an_honest_log_never_says_is_named_by_its_line() -> None:
    good = head(5, 10)
    altered = json.loads(good)
    altered["body"] = altered["body"].replace('"size":5', '"size":6')
    for lines, wrong in (
        ([json.dumps(altered).encode()], "line 1: the signature"),
        ([good, head(7, 11, key=1)], "line 2: it is signed by key"),
        ([head(7, 11, key=1)], "line 1: key .* is not among the public keys"),
        ([good, head(7, 9)], "line 2: its time is before"),
        ([good, head(7, 11, log="log_2")], "line 2: it is of log log_2"),
        ([good, head(4, 11)], "line 2: the log went back from 5 to 4 .*: entry 4 are given up"),
        ([good, head(5, 11, root=ROOTS[1])], "line 2: another root for 5 entries"),
        ([good, rotation(11, 0)], "line 2: the new key .* has not signed"),
        ([good, rotation(11, 1)], "line 2: the signature of key"),
        ([good, rotation(11, 0, 1, public=2)], "line 2: key .* is another key"),
        ([good, rotation(11, 0, 1), head(6, 12)], "line 3: it is signed by key"),
        ([good, head(9, 11), restore(7, 12, last=9)], "line 3: the restore goes on from a head of"),
        ([good, head(9, 11), restore(5, 12, last=8)], "line 3: the restore gives up heads up to 8"),
    ):
        with pytest.raises(AssertionError, match=wrong):
            raise AssertionError(" | ".join(followed(*lines).findings))
        second: list[str] = []
        published([one.decode() for one in lines], json.loads(encode_keys(TRUSTED)), second)
        assert second, f"the second verifier took {wrong}"


def test_a_line_that_a_slow_server_wrote_down_once_more_and_late_counts_once() -> None:
    once = [head(5, 10), head(9, 12), restore(5, 13, last=9), head(7, 14, root=ROOTS[1])]
    once += [rotation(15, 0, 1), head(8, 16, root=ROOTS[2], key=1)]
    found = followed(*once)
    for late in once:
        again = followed(*once, late)
        assert again.findings == ()
        assert again.checkpoints == found.checkpoints
        assert (again.key, again.last) == (found.key, found.last)
        other: list[str] = []
        published([*once, late], json.loads(encode_keys(TRUSTED)), other)
        assert other == []


def test_what_an_honest_log_says_is_followed() -> None:
    found = followed(
        head(5, 10),
        head(5, 11),
        head(9, 12),
        restore(5, 13, last=9),
        head(7, 14, root=ROOTS[1]),
        b"torn",
        rotation(15, 0, 1),
        head(8, 15, root=ROOTS[2], key=1),
    )
    assert found.findings == ()
    assert [(one.size, one.root.hex()) for one in found.checkpoints] == [
        (5, ROOTS[0]),
        (7, ROOTS[1]),
        (8, ROOTS[2]),
    ]
    assert [one.size for one in found.given_up] == [9]
    assert found.key == IDS[1]
    assert len(found.notes) == 1

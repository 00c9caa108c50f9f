"""The audit over REST: head, proofs, sealing, rotation, restore."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from controller.api import audit
from controller.audit.verify import Verification, verify
from policies.proofs import proves_consistency, proves_inclusion
from tests.api.plane import Answered, Plane


def asked(plane: Plane, path: str) -> Answered:
    """As an auditor."""
    return plane.call("auditor", "GET", path)


def test_the_head_says_what_is_outside_and_what_is_not_yet(plane: Plane) -> None:
    before = plane.get("/v1/audit/head")
    assert before["published"] is None
    plane.services.audit.publisher.publish()
    plane.proposed()
    plane.services.audit.tree.sync()
    head = plane.get("/v1/audit/head")
    assert head["alarm"] is None
    assert head["published"]["type"] == "head"
    assert head["size"] == head["published"]["size"] + head["unpublished"]
    assert head["unpublished"] >= 1
    assert "beside the store" in head["warning"]
    assert [key["id"] for key in head["public_keys"]["keys"]] == [head["key"]]
    figures = plane.get("/metrics").body
    assert "trimtab_audit_alarm 0.0" in figures
    assert "trimtab_audit_sink_beside 1.0" in figures
    assert f"trimtab_audit_unpublished {head['unpublished']}.0" in figures


def test_one_verification_runs_at_a_time_and_kill_waits_for_none(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    going, end = threading.Event(), threading.Event()

    def slow(*_: object, **__: object) -> Verification:
        going.set()
        assert end.wait(30)
        return verify(plane.services.store_file)

    monkeypatch.setattr(audit, "verify", slow)
    with ThreadPoolExecutor(60) as people:
        first = people.submit(plane.get, "/v1/audit/verify")
        assert going.wait(30)
        others = [people.submit(plane.get, "/v1/audit/verify") for _ in range(50)]
        killed = people.submit(
            plane.call, "operator", "POST", "/v1/targets/chat/kill", {"reason": "a test"}
        )
        try:
            assert killed.result(timeout=20).status == 200
            assert {other.result(timeout=20).status for other in others} == {503}
        finally:
            end.set()
        assert first.result(timeout=20).status == 200
    assert plane.get("/v1/audit/verify").status == 200


def test_proofs_hold_and_what_is_not_in_the_log_is_refused(plane: Plane) -> None:
    plane.proposed()
    proof = asked(plane, "/v1/audit/proof?index=1")
    path = [bytes.fromhex(one) for one in proof["path"]]
    root = bytes.fromhex(proof["root"])
    leaf = bytes.fromhex(proof["leaf_hash"])
    assert proves_inclusion(leaf, 1, proof["size"], path, root)
    grown = asked(plane, f"/v1/audit/consistency?first=2&second={proof['size']}")
    assert proves_consistency(
        2,
        bytes.fromhex(grown["first_root"]),
        proof["size"],
        root,
        [bytes.fromhex(one) for one in grown["path"]],
    )
    for wrong in (
        "/v1/audit/proof?index=5000",
        "/v1/audit/proof?index=1&size=100000",
        "/v1/audit/consistency?first=9&second=3",
        "/v1/audit/consistency?first=1&second=100000",
        "/v1/audit/proof",
    ):
        assert asked(plane, wrong).status == 422, wrong


def test_an_admin_seals_and_the_export_still_has_every_entry(plane: Plane) -> None:
    whole = asked(plane, "/v1/audit").body
    assert plane.post("/v1/audit/seal", {"entries": 3}).status == 403
    made = plane.post("/v1/audit/seal", {"entries": 3}, who="admin")
    assert (made.status, made["first"], made["last"]) == (201, 0, 2)
    assert asked(plane, "/v1/audit").body.startswith(whole)
    assert plane.get("/v1/audit/verify")["clean"]
    assert plane.post("/v1/audit/seal", {"before_us": 0}, who="admin").status == 409
    assert plane.post("/v1/audit/seal", {}, who="admin").status == 422
    shutil.rmtree(plane.services.audit.archives.folder)
    assert '"entry":null' in asked(plane, "/v1/audit").body
    assert plane.get("/v1/audit/verify")["result"]["archived"] == 3


def test_an_admin_hands_over_to_a_new_key(plane: Plane) -> None:
    assert plane.post("/v1/audit/rotate-key").status == 403
    made = plane.post("/v1/audit/rotate-key", who="admin")
    assert made.status == 201
    head = plane.get("/v1/audit/head")
    assert made["rotation"]["new"] == head["key"] == made["public_keys"]["keys"][-1]["id"]
    found = plane.get("/v1/audit/verify")
    assert found["clean"]
    assert any("handed over" in note for note in found["result"]["notes"])


def test_a_backup_put_back_is_an_alarm_until_an_admin_says_so(plane: Plane, tmp_path: Path) -> None:
    nothing = {"reason": "by mistake"}
    plane.services.audit.publisher.publish()
    assert plane.post("/v1/audit/restored", nothing, who="admin").status == 409
    backup = tmp_path / "backup.db"
    live = plane.folder / "store.db"
    with closing(sqlite3.connect(live)) as store:
        store.execute("VACUUM INTO ?", (str(backup),))
    plane.proposed()
    plane.services.audit.publisher.publish()
    with closing(sqlite3.connect(backup)) as old, closing(sqlite3.connect(live)) as store:
        old.backup(store)
    assert plane.services.audit.publisher.publish() is None
    assert "are gone" in plane.get("/v1/audit/head")["alarm"]
    assert "trimtab_audit_alarm 1.0" in plane.get("/metrics").body
    assert not plane.get("/v1/audit/verify")["clean"]
    assert asked(plane, "/v1/audit/proof?index=0").status == 503
    assert plane.post("/v1/audit/rotate-key", who="admin").status == 409
    said = plane.post("/v1/audit/restored", {"reason": "the disk failed"}, who="admin")
    assert said.status == 201
    assert plane.get("/v1/audit/head")["alarm"] is None
    assert plane.get("/v1/audit/verify")["clean"]

"""``Idempotency-Key``: once, whatever happens in between."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from signals.errors import Unavailable
from tests.api.plane import Answered, Plane

PROPOSAL = {
    "target": "chat",
    "knob": "active_cap",
    "setting": {"value": 16},
    "reason": "a test",
}
REASON = {"reason": "a test"}


def propose(plane: Plane, key: str, who: str = "operator", **changes: Any) -> Answered:
    return plane.call(who, "POST", "/v1/policies", PROPOSAL | changes, idempotency_key=key)


def count(plane: Plane) -> int:
    return len(plane.get("/v1/policies")["items"])


def test_the_same_call_again_brings_the_first_answer_and_does_nothing(plane: Plane) -> None:
    first, again = propose(plane, "k1"), propose(plane, "k1")
    assert (first.status, first.body) == (again.status, again.body)
    assert first.headers["location"] == again.headers["location"]
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    assert count(plane) == 1


def test_another_key_or_none_does_it_again(plane: Plane) -> None:
    propose(plane, "k1")
    assert propose(plane, "k2", setting={"value": 4}).status == 201
    assert plane.proposed(32).status == 201
    assert count(plane) == 3


def test_the_same_key_for_another_call_is_refused(plane: Plane) -> None:
    propose(plane, "k1")
    assert propose(plane, "k1", reason="another").status == 422
    other = plane.call("operator", "POST", "/v1/kill", REASON, idempotency_key="k1")
    assert other.status == 422
    assert count(plane) == 1


def test_a_key_belongs_to_its_caller(plane: Plane) -> None:
    propose(plane, "k1")
    theirs = propose(plane, "k1", who="other", setting={"value": 4})
    assert (theirs.status, "idempotent-replayed" in theirs.headers) == (201, False)
    assert count(plane) == 2


def test_a_refusal_is_an_answer_too(plane: Plane) -> None:
    first = propose(plane, "k1", knob="speed")
    again = propose(plane, "k1", knob="speed")
    assert (first.status, again.status) == (422, 422)
    assert again.headers["idempotent-replayed"] == "true"


def test_it_holds_after_a_restart_and_ends_after_a_day(plane: Plane) -> None:
    first = propose(plane, "k1")
    plane.restart()
    assert propose(plane, "k1").body == first.body
    plane.world.now_s += 86_401
    assert "idempotent-replayed" not in propose(plane, "k1").headers
    with plane.world.store.read() as tx:
        assert tx.audit_size() > 0


def test_what_was_cut_off_by_a_restart_is_not_known_and_not_done_again(plane: Plane) -> None:
    propose(plane, "k1")
    operator = next(one for one in keys_of(plane) if one["name"] == "operator")
    with plane.world.store.write() as tx:
        found = tx.answered(operator["id"], "k1")
        assert found is not None
        tx.drop_answer(operator["id"], "k1")
        tx.claim_answer(operator["id"], "k1", found.request_sha256, found.at_us)
    assert "still running" in propose(plane, "k1")["detail"]
    plane.world.now_s += 1
    plane.restart()
    refused = propose(plane, "k1")
    assert (refused.status, "outcome is not known" in refused["detail"]) == (409, True)
    assert count(plane) == 1


def keys_of(plane: Plane) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = plane.call("admin", "GET", "/v1/keys")["items"]
    return found


def test_twenty_at_once_are_carried_out_once(plane: Plane) -> None:
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: propose(plane, "k1"), range(20)))
    assert {answer.status for answer in answers} <= {201, 409}
    done = [answer["id"] for answer in answers if answer.status == 201]
    assert len(set(done)) == 1
    assert count(plane) == 1


def test_nothing_of_an_erasure_is_kept(plane: Plane) -> None:
    for number, id_ in enumerate(("canary-4711", "canary-" + "x" * 300)):
        body = {"by": "session", "id": id_, "reason": "a test"}
        codes = [
            plane.call("admin", "POST", "/v1/erasures", body, idempotency_key=f"k{number}").status
            for _ in range(2)
        ]
        assert codes in ([202, 202], [422, 422])
    with plane.world.store.read() as tx:
        everybody = tx.keys()
        admins = [one.id for one in everybody if one.role == "admin"]
        assert [tx.answered(admin, key) for admin in admins for key in ("k0", "k1")] == [None, None]
    files = plane.folder.glob("store.db*")
    assert not any(b"canary-" in file.read_bytes() for file in files)


def test_a_new_key_is_never_kept(plane: Plane) -> None:
    wanted = {"name": "eva", "role": "approver"}
    made = plane.call("admin", "POST", "/v1/keys", wanted, idempotency_key="k1")
    again = plane.call("admin", "POST", "/v1/keys", wanted, idempotency_key="k1")
    assert (made.status, again.status) == (201, 409)
    assert "shown once" in again["detail"]
    plane.world.store.close()
    secret = made["key"].rpartition("_")[2].encode()
    for file in plane.folder.glob("store.db*"):
        assert secret not in file.read_bytes(), file.name


def test_a_failure_of_ours_is_not_kept(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("a hole")

    with monkeypatch.context() as patch:
        patch.setattr(plane.world.operations, "propose_wanted", broken)
        assert propose(plane, "k1").status == 500
    assert propose(plane, "k1").status == 201


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 256, "ü"])
def test_what_is_no_key_is_refused(calm: Plane, key: str) -> None:
    sent = {"Authorization": f"Bearer {calm.tokens['operator']}", "Idempotency-Key": key.encode()}
    answer = calm.http.post("/v1/policies", json=PROPOSAL, headers=sent)  # type: ignore[arg-type]
    assert answer.status_code == 422


def test_kill_works_while_the_store_hangs_and_when_it_is_away(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane.call("operator", "GET", "/v1/policies")
    hung = threading.Event()
    claimed = plane.services.store.write

    def hangs() -> Any:
        hung.wait(30)
        raise Unavailable("the store is away")

    monkeypatch.setattr(plane.services.store, "write", hangs)
    with plane.http:
        began_s = time.monotonic()
        answer = plane.call("operator", "POST", "/v1/kill", REASON, idempotency_key="k1")
        took_s = time.monotonic() - began_s
        hung.set()
    assert (answer.status, took_s < 3) == (200, True), answer.body
    assert "idempotent-replayed" not in answer.headers
    assert plane.world.fleet.latch.read()["chat"].state == "killed"
    monkeypatch.setattr(plane.services.store, "write", claimed)


def test_a_get_does_not_look_at_it(plane: Plane) -> None:
    for _ in range(2):
        answer = plane.call("viewer", "GET", "/v1/policies", idempotency_key="k1")
        assert answer.status == 200
        assert "idempotent-replayed" not in answer.headers

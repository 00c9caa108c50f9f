"""The gate in front: addresses that present bad credentials, and what is noted of good ones."""

from __future__ import annotations

import logging

import pytest

from controller.api.front import fronted
from controller.identity.settings import LockoutSettings
from tests.api.plane import Plane


def guess(plane: Plane, times: int = 1, **headers: str) -> list[int]:
    return [
        plane.call(f"tt_{'0' * 32}_{n}", "GET", "/v1/policies", **headers).status
        for n in range(times)
    ]


def locked(plane: Plane) -> list[str]:
    """The addresses whose lock-out is in the audit."""
    with plane.world.store.read() as tx:
        return [one.subject for one in tx.audit() if one.action == "auth.locked_out"]


def test_ten_bad_keys_lock_the_address_once_and_say_for_how_long(plane: Plane) -> None:
    assert guess(plane, 12) == [401] * 10 + [429] * 2
    answer = plane.call("tt_guess", "GET", "/v1/policies")
    assert (answer.status, answer.headers["retry-after"]) == (429, "5")
    assert locked(plane) == ["testclient"]
    plane.world.now_s += 6
    assert guess(plane) == [401]


def test_neither_the_audit_nor_the_log_holds_what_was_presented(
    plane: Plane, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        guess(plane, 12)
        plane.call("s3cret-guess", "GET", "/v1/policies")
    with plane.world.store.read() as tx:
        written = str([one.details for one in tx.audit()])
    for text in (written, caplog.text):
        assert "tt_0" not in text
        assert "s3cret" not in text
        assert not any(token in text for token in plane.tokens.values())


def test_whose_key_was_good_before_is_still_let_in_from_a_locked_address(plane: Plane) -> None:
    assert plane.get("/v1/policies").status == 200
    guess(plane, 10)
    assert plane.get("/v1/policies").status == 200
    assert plane.post("/v1/targets/chat/kill", {"reason": "fire"}, who="viewer").status == 403
    assert plane.post("/v1/targets/chat/hold", {"reason": "fire"}, who="operator").status == 429


def test_a_missing_or_insufficient_key_is_no_guess(plane: Plane) -> None:
    for _ in range(20):
        assert plane.http.get("/v1/policies").status_code == 401
        assert plane.post("/v1/targets/chat/kill", {"reason": "x"}, who="viewer").status == 403
    assert plane.get("/v1/policies").status == 200
    assert locked(plane) == []


def test_a_forwarded_address_counts_for_nothing_by_default(plane: Plane) -> None:
    for number in range(12):
        guess(plane, x_forwarded_for=f"192.0.2.{number}")
    assert locked(plane) == ["testclient"]


def test_the_lock_is_before_the_body_and_before_the_key(plane: Plane) -> None:
    guess(plane, 10)
    answer = plane.http.post(
        "/v1/policies", content=b"x" * 1_000_000, headers={"Authorization": "Bearer tt_new"}
    )
    assert answer.status_code == 429
    assert answer.headers["content-type"] == "application/problem+json"


def test_bounds_are_settings() -> None:
    assert LockoutSettings().failures == 10
    assert LockoutSettings().trusted_proxies == ()
    with pytest.raises(ValueError, match="does not appear to be"):
        LockoutSettings(trusted_proxies=("nowhere",))


def test_the_last_use_of_a_key_is_shown_and_is_not_in_the_audit(plane: Plane) -> None:
    with plane.world.store.read() as tx:
        before = tx.audit_size()
    plane.get("/v1/policies")
    keys = plane.call("admin", "GET", "/v1/keys")["items"]
    found = {one["name"]: one["last_used_us"] for one in keys}
    assert found["viewer"] is not None
    assert found["other"] is None
    plane.world.now_s += 61
    plane.get("/v1/policies")
    with plane.world.store.read() as tx:
        assert tx.audit_size() == before
        viewer = next(one["id"] for one in keys if one["name"] == "viewer")
        assert tx.note(f"key_used:{viewer}") is not None


def test_what_is_served_is_what_is_tested(plane: Plane) -> None:
    assert type(fronted(plane.app)).__name__ == "Gate"

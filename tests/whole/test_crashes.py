"""``kill -9`` of the stages of a running system: each is back, and what was true is still true."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from email.utils import parsedate_to_datetime

import httpx
import pytest

from tests.whole.system import System, running_system, wait

BACK_S = 10.0


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """One system for these tests, in the order of the file."""
    with running_system(tmp_path_factory.mktemp("whole")) as started:
        wait("the baseline", lambda: started.cap() == 4, within_s=20)
        yield started


def test_serve_killed_during_a_trial_goes_on_with_it(system: System) -> None:
    policy = system.propose(8)
    wait("the trial", lambda: system.policy(policy)["state"] == "on_trial", within_s=20)
    trial = system.policy(policy)["trial"]
    system.kill_child("serve")
    took_s = wait("serve", lambda: system.policy(policy)["state"] == "on_trial", within_s=BACK_S)
    assert took_s < BACK_S
    assert system.policy(policy)["trial"] == trial
    stamped = [c["trial"]["block"] for c in system.engine()["changes"] if c.get("trial")]
    last = max(stamped)

    def later_block() -> bool:
        now = system.engine()["trial"]
        return now is not None and now["id"] == trial and now["block"] > last

    wait("the next block of the same trial", later_block, within_s=30)
    assert system.audit_is_clean()
    system.ada.post(f"/v1/policies/{policy}/revert", json={"reason": "done"}).raise_for_status()
    wait("the revert", lambda: system.policy(policy)["state"] == "reverted", within_s=10)
    assert system.cap() == 4


def test_an_engine_killed_after_an_apply_is_back_with_the_same_settings(system: System) -> None:
    before = system.engine()["incarnation"]
    system.kill_child("engine")

    def back() -> bool:
        return system.engine()["incarnation"] != before and system.cap() == 4

    wait("the engine with its baseline", back, within_s=90)
    assert "engine.restarted" in system.actions()
    assert system.audit_is_clean()


def test_ingest_and_features_killed_while_feedback_comes_lose_nothing(system: System) -> None:
    models = httpx.get(f"{system.urls['chat']}/models").raise_for_status().json()
    chat = httpx.post(
        f"{system.urls['chat']}/chat/completions",
        json={
            "model": models["data"][0]["id"],
            "messages": [{"role": "user", "content": "Hi"}],
            "max_tokens": 4,
        },
        headers={"X-Trimtab-Intent": "live"},
        timeout=60,
    ).raise_for_status()
    request_id = chat.json()["id"]
    body = {
        "name": "web",
        "role": "producer",
        "targets": ["*"],
        "kinds": ["business"],
        "names": ["*"],
    }
    key = system.admin.post("/v1/keys", json=body).raise_for_status().json()["key"]
    web = httpx.Client(
        base_url=system.urls["ingest"], headers={"Authorization": f"Bearer {key}"}, timeout=5
    )
    kills = {3: "ingest", 6: "features"}
    for n in itertools.count():
        if n in kills:
            system.kill_child(kills[n])
        event = {"id": f"copy-{n}", "kind": "business", "name": "thumbs", "value": 1.0}

        def accepted(event: dict[str, object] = event) -> bool:
            when = httpx.get(f"{system.urls['serve']}/healthz").headers["date"]
            stamped = event | {"request_id": request_id, "time": _rfc3339(when)}
            return web.post("/v1/signals", json=stamped).status_code == 202

        wait("an acknowledgement", accepted, within_s=2 * BACK_S)
        if n == 9:
            break

    def joined() -> bool:
        found = system.ada.get(f"/v1/requests/{request_id}").raise_for_status().json()
        return {outcome["event_id"] for outcome in found["outcomes"]} == {
            f"copy-{n}" for n in range(10)
        }

    wait("ten outcomes joined once each", joined, within_s=20)


def test_hold_and_kill_are_read_back_within_a_second_and_survive_a_restart(system: System) -> None:
    held = (
        system.ada.post("/v1/targets/chat/hold", json={"reason": "look"}).raise_for_status().json()
    )
    assert [r["ok"] for r in held["replicas"]] == [True]
    assert held["took_ms"] < 1000
    assert system.engine()["hold"]
    system.kill_child("serve")
    wait("serve", lambda: bool(system.ada.get("/readyz").raise_for_status()), within_s=BACK_S)
    assert system.engine()["hold"]
    system.ada.post("/v1/targets/chat/release", json={"reason": "done"}).raise_for_status()
    assert not system.engine()["hold"]
    policy = system.propose(8)
    wait("the candidate", lambda: system.cap() == 8, within_s=30)
    killed = (
        system.ada.post("/v1/targets/chat/kill", json={"reason": "stop"}).raise_for_status().json()
    )
    assert killed["took_ms"] < 1000
    assert system.cap() == 4
    wait("the record", lambda: system.policy(policy)["state"] == "reverted", within_s=10)
    system.ada.post("/v1/targets/chat/release", json={"reason": "done"}).raise_for_status()
    assert system.audit_is_clean()


def _rfc3339(http_date: str) -> str:
    """An HTTP date as RFC 3339, so that the test needs no clock of its own."""
    return parsedate_to_datetime(http_date).isoformat()

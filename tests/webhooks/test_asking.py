"""Webhooks over REST and on the command line."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from msgspec.structs import replace

from controller.api.app import make_app
from controller.api.server import serve_until
from controller.config.sections import ServeSettings
from controller.settings import Settings
from controller.webhooks.posting import read_secrets
from controller.webhooks.running import secret_file, webhooks_running
from controller.webhooks.signing import new_secret, sign
from tests.api.plane import Plane
from tests.cli.running import Trimtab, answers, until
from tests.signals.processes import free_port
from tests.webhooks.receiving import Receiver, receiving


class Told:
    """A control plane with one hook, whose webhooks run."""

    def __init__(self, plane: Plane, receiver: Receiver, settings: Settings) -> None:
        self.plane = plane
        self.receiver = receiver
        self.settings = settings


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    folder = tmp_path_factory.mktemp("told")
    plane = Plane(folder)
    plane.world.run(1)
    with receiving() as receiver:
        hooks = {"ops": {"url": f"{receiver.url}?key=canary", "events": ["policy.*"]}}
        given = {**plane.services.settings.model_dump(by_alias=True), "webhooks": {"hooks": hooks}}
        given["webhooks"]["poll_ms"] = 10
        settings = Settings.model_validate(given)
        path = secret_file(settings, "ops")
        path.parent.mkdir(exist_ok=True)
        path.write_text(new_secret(b"s".ljust(32)))
        plane.services = replace(plane.services, settings=settings)
        plane.app = make_app(plane.services)
        plane.http = TestClient(plane.app, raise_server_exceptions=False)
        stop = threading.Event()
        with webhooks_running(settings, plane.world.store, stop, clock=plane.world.clock_us):
            until(lambda: bool(_cursor(plane)), "the hook begins")
            yield Told(plane, receiver, settings)
    plane.close()


def _cursor(plane: Plane) -> str | None:
    with plane.world.store.read() as tx:
        return tx.note("webhooks:ops")


def test_a_proposal_that_waits_carries_the_digest_that_an_approval_binds_to(told: Told) -> None:
    made = told.plane.proposed()
    until(lambda: "policy.pending" in told.receiver.events, "it is told")
    post = next(one for one in told.receiver.posts if one.json["event"] == "policy.pending")
    assert post.json["subject"] == made["id"]
    body = {"shown_digest": post.json["shown_digest"]}
    moved = told.plane.post(f"/v1/policies/{made['id']}/approve", body, who="other")
    assert moved.status == 200
    until(lambda: "policy.approved" in told.receiver.events, "the approval is told")
    approved = next(one for one in told.receiver.posts if one.json["event"] == "policy.approved")
    assert "shown_digest" not in approved.json


def test_people_see_how_a_hook_stands_and_neither_path_nor_secret(told: Told) -> None:
    assert told.plane.post("/v1/webhooks/ops/test").status == 202
    until(lambda: "webhook.tested" in told.receiver.events, "the test arrives")
    until(lambda: told.plane.get("/v1/webhooks")["items"][0]["waiting"] == 0, "all is sent")
    answer = told.plane.get("/v1/webhooks")
    shown = answer["items"][0]
    assert shown["url"] == f"http://127.0.0.1:{told.receiver.port}/…"
    assert (shown["lag"], shown["given_up"], shown["error"]) == (0, 0, None)
    page = told.plane.get("/v1/webhooks/ops/deliveries?limit=1")
    assert page["items"][0]["event"] == "webhook.tested"
    rest = told.plane.get(f"/v1/webhooks/ops/deliveries?before={page['next']}")
    assert all(one["entry"] < page["next"] for one in rest["items"])
    figures = told.plane.get("/metrics").body
    assert 'trimtab_webhook_lag_entries{hook="ops"} 0.0' in figures
    assert 'trimtab_webhook_deliveries{hook="ops",state="given_up"} 0.0' in figures
    for seen in (json.dumps(answer.body), figures, json.dumps(rest.body)):
        assert "canary" not in seen
        assert "whsec" not in seen


def test_what_was_sent_can_be_sent_again_and_what_is_unknown_is_not_found(told: Told) -> None:
    told.plane.post("/v1/webhooks/ops/test")
    found = told.plane.get("/v1/webhooks/ops/deliveries?state=delivered")["items"]
    before = told.receiver.ids.count(found[0]["id"])
    path = f"/v1/webhooks/ops/deliveries/{found[0]['id']}/redeliver"
    assert told.plane.post(path).status == 202
    until(lambda: told.receiver.ids.count(found[0]["id"]) == before + 1, "it arrives again")
    assert told.plane.post("/v1/webhooks/ops/deliveries/ops:999999/redeliver").status == 404
    assert told.plane.post("/v1/webhooks/nobody/test").status == 404
    assert told.plane.get("/v1/webhooks/nobody/deliveries").status == 404
    assert told.plane.get("/v1/webhooks/No-Name/deliveries").status == 422
    assert told.plane.call("viewer", "POST", "/v1/webhooks/ops/test").status == 403


def test_the_command_line_lists_tests_and_sends_again(told: Told, tmp_path: Path) -> None:
    settings, stop = ServeSettings(port=free_port()), threading.Event()
    thread = threading.Thread(target=serve_until, args=(stop, told.plane.app, settings))
    thread.start()
    url = f"http://127.0.0.1:{settings.port}"
    key = tmp_path / "operator.key"
    key.write_text(told.plane.tokens["operator"])
    trimtab = Trimtab(tmp_path, {"TRIMTAB_URL": url, "TRIMTAB_KEY_FILE": str(key)})
    try:
        until(lambda: answers(f"{url}/healthz"), "the control plane answers")
        assert trimtab("webhooks", "test", "ops").code == 0
        until(lambda: trimtab("webhooks", "list", "--json").json["items"][0]["lag"] == 0, "told")
        shown = trimtab("webhooks", "deliveries", "ops", "--state", "delivered", "--json").json
        again = trimtab("webhooks", "redeliver", "ops", shown["items"][-1]["id"])
        assert again.out == f"{shown['items'][-1]['id']} is sent again\n"
        assert "webhook.tested" in trimtab("webhooks", "deliveries", "ops").out
        assert "policy.*" in trimtab("webhooks", "list").out
        assert trimtab("webhooks", "test", "nobody").code == 2
    finally:
        stop.set()
        thread.join()


def test_a_receiver_checks_a_signature_on_the_command_line(told: Told, tmp_path: Path) -> None:
    path = secret_file(told.settings, "ops")
    body = tmp_path / "event.json"
    body.write_bytes(b'{"event":"policy.pending"}')
    headers = sign("ops:7", int(time.time()), body.read_bytes(), read_secrets(path))
    words = ["webhooks", "verify-signature", "--secret-file", str(path), "--id", "ops:7"]
    words += ["--timestamp", headers["webhook-timestamp"]]
    words += ["--signature", headers["webhook-signature"], "--body", str(body)]
    trimtab = Trimtab(tmp_path)
    assert trimtab(*words).out == "the signature is right\n"
    body.write_bytes(b'{"event":"policy.approved"}')
    wrong = trimtab(*words)
    assert wrong.code == 2
    assert "no signature fits" in wrong.err

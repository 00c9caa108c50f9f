"""A small whole session with canaries in every text, id, key and secret: none is found afterwards
where it does not belong. ``ingest``, ``features`` and ``serve`` are real processes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from signals.events import MICROS, Record
from tests.cli.running import Trimtab, Up, until
from tests.engine_process import PLAIN, SERVING_KEY, RunningEngine
from tests.engine_telemetry.ingesting import Ingest
from tests.signals.making import arrived, basic, finished, second
from tests.signals.making import stamp as stamp_of
from tests.signals.processes import free_port
from tests.webhooks.receiving import Receiver, receiving

SESSION = "canary-session"
EXTERNAL = "canary-external"
TEXT = "canary-text"
WRONG_KEY = "canary-wrong-key"
URL_KEY = "canary-url-key"
WAIT_S = 30.0


class Session:
    """The running product, and who speaks to it."""

    def __init__(self, folder: Path, receiver: Receiver) -> None:
        self.state = folder / "state"
        self.receiver = receiver
        config = folder / "trimtab.yaml"
        ports = {"serve": free_port(), "ingest": free_port()}
        hook = {"url": f"{receiver.url}?{URL_KEY}", "events": ["*"]}
        target: dict[str, Any] = {"engine": {"control_urls": [f"http://127.0.0.1:{free_port()}"]}}
        target["maximize"] = "live.tokens_per_s"
        target["intents"] = {"live": {"class": "interactive", "slo": {"ttft_ms": 1000}}}
        tree = {
            "state_dir": str(self.state),
            "targets": {"chat": target},
            "privacy": {"hash_ids": True},
            "webhooks": {"hooks": {"ops": hook}, "poll_ms": 50},
            "features": {"lateness_s": 1},
            **{name: {"port": port} for name, port in ports.items()},
        }
        config.write_text(json.dumps(tree))
        self.urls = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
        self.trimtab = Trimtab(folder, {"TRIMTAB_CONFIG": str(config)})
        self.up = Up(config)

    def wait(self) -> Session:
        for name in ("features", "ingest", "serve"):
            self.up.wait_for("ready", name, within_s=WAIT_S)
        self.admin = self.key("admin")
        return self

    def key(self, name: str) -> str:
        return (self.state / "keys" / f"{name}.key").read_text().strip()

    def call(self, method: str, path: str, body: object = None, *, key: str = "") -> httpx.Response:
        """To the control plane."""
        bearer = {"Authorization": f"Bearer {key or self.admin}"}
        return PLAIN.request(method, self.urls["serve"] + path, json=body, headers=bearer)

    def post(self, key: str, *events: object) -> httpx.Response:
        """To ingest."""
        bearer = {"Authorization": f"Bearer {key}"}
        return PLAIN.post(f"{self.urls['ingest']}/v1/signals", json=events, headers=bearer)

    def made_key(self, name: str, kind: str) -> str:
        body = {"name": name, "role": "producer", "kinds": [kind]}
        made: dict[str, str] = self.call("POST", "/v1/keys", body).json()
        return made["key"]

    def files(self) -> Iterator[Path]:
        """Everything it keeps, but for the keys."""
        for path in self.state.rglob("*"):
            if path.is_file() and path.parent != self.state / "keys":
                yield path


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with receiving() as receiver:
        made = Session(tmp_path_factory.mktemp("session"), receiver)
        try:
            yield made.wait()
        finally:
            made.up.close()


def lived(session: Session) -> list[str]:
    """Requests, feedback, refusals, acts; the secrets that were made."""
    engine, shop = session.made_key("edge", "basic"), session.made_key("shop", "business")
    now_us = time.time_ns() // 1000
    stamp = stamp_of()
    ids: dict[str, Any] = {"session_id": SESSION, "external_id": EXTERNAL}
    records: tuple[Record, ...] = (
        arrived(1, 1, now_us - MICROS, by=stamp, **ids),
        finished(2, 1, now_us - MICROS, now_us, by=stamp, **ids),
        second(3, now_us + 60 * MICROS, by=stamp),
    )
    assert session.post(engine, *map(_event, records)).status_code == 202
    copied = {"kind": "business", "name": "answer_copied", "value": True, "time": _now()}
    assert session.post(shop, {**copied, "id": "1", "external_id": EXTERNAL}).status_code == 202
    assert session.post(shop, {**copied, "id": "2", "session_id": SESSION}).status_code == 202
    unknown = {**copied, "id": "3", "external_id": f"{EXTERNAL}-nowhere"}
    assert session.post(shop, unknown).status_code == 202
    # The same id, something else: a dead letter that holds the whole event.
    other = {**copied, "id": "1", "session_id": SESSION}
    assert session.post(shop, other).status_code == 202
    # Refused: free text where none belongs, an unknown name, no JSON, no key.
    for bad in (
        {**copied, "id": "4", "session_id": SESSION, "comment": TEXT},
        {**copied, "id": "5", "session_id": SESSION, "value": TEXT},
        {**copied, "id": "6", "session_id": f"{SESSION} {TEXT}"},
        {**copied, "id": "7", "session_id": SESSION, "name": TEXT},
    ):
        assert session.post(shop, bad).status_code == 422
    assert session.post(WRONG_KEY, {**copied, "id": "8", "session_id": SESSION}).status_code == 401
    for path in (f"/v1/requests/chat.{TEXT}", f"/v1/{TEXT}", f"/v1/policies/{TEXT}"):
        assert session.call("GET", path).status_code in (404, 422)
    assert session.call("POST", "/v1/policies", {"prompt": TEXT}).status_code == 422
    assert session.call("GET", "/v1/policies", key=WRONG_KEY).status_code == 401
    held = session.call("POST", "/v1/targets/chat/hold", {"reason": "a test"})
    assert held.status_code == 200
    return [engine, shop]


def test_nothing_private_is_found_where_it_does_not_belong(session: Session) -> None:
    secrets = lived(session)
    until(lambda: _joined(session) == 2, "feedback is joined by external id and by session")
    asked = {"by": "session", "id": SESSION, "reason": "its user asked for it"}
    answer = session.call("POST", "/v1/erasures", asked)
    assert answer.status_code == 202
    assert [one["where"] for one in answer.json()["remains"]] == ["the bus"]
    command = answer.json()["command"]["id"]
    until(lambda: _command(session, command) == "done", "the session is let go of")
    until(lambda: "erasure.requested" in session.receiver.events, "the webhook is told")
    until(lambda: session.call("GET", "/v1/webhooks").json()["items"][0]["waiting"] == 0, "told")
    audit = session.call("GET", "/v1/audit").text
    assert "erasure.requested" in audit
    assert answer.json()["pseudonym"] in audit
    shown = [
        session.call("GET", path).text
        for path in ("/v1/webhooks", "/v1/webhooks/ops/deliveries", "/metrics", "/v1/keys")
    ]
    posts = "".join(post.body.decode() for post in session.receiver.posts)
    session.up.close()
    keys = [path.read_text().strip() for path in (session.state / "keys").iterdir()]
    needles = [SESSION, EXTERNAL, TEXT, WRONG_KEY, URL_KEY, *secrets, *keys]
    assert len(keys) >= 5
    for needle in needles:
        for text in (audit, posts, *shown):
            assert needle not in text, needle
        found = [path for path in session.files() if needle.encode() in path.read_bytes()]
        assert found == [], needle
    assert any(path.suffix == ".db" for path in session.files())
    assert any(path.parent.name == "logs" for path in session.files())


def test_an_engine_writes_down_no_word_of_prompts_answers_or_keys(
    engine: RunningEngine, ingest: Ingest
) -> None:
    bearer = {"Authorization": f"Bearer {SERVING_KEY}", "X-Trimtab-Session": "plain"}
    chat = f"{engine.url}/v1/chat/completions"
    ask: dict[str, Any] = {
        "model": engine.model,
        "messages": [{"role": "user", "content": f"{TEXT} one two three"}],
        "max_tokens": 12,
    }
    answered = PLAIN.post(chat, json=ask, headers=bearer).raise_for_status().json()
    answer = answered["choices"][0]["message"]["content"]
    assert len(answer) > 3
    for bad in (ask | {"n": 2}, ask | {"messages": TEXT}, ask | {"stop": [TEXT] * 9}):
        assert PLAIN.post(chat, json=bad, headers=bearer).status_code == 400
    wrong = {"Authorization": f"Bearer {WRONG_KEY}"}
    assert PLAIN.post(chat, json=ask, headers=wrong).status_code == 401
    until(lambda: answered["id"] in engine.trace_log.read_text(), "its trace is written")
    until(lambda: answered["id"].encode() in _posted(ingest), "its signals are posted")
    written = engine.trace_log.read_bytes() + (engine.folder / "engine.log").read_bytes()
    for needle in (TEXT, answer.strip(), SERVING_KEY, WRONG_KEY):
        assert needle.encode() not in written
        assert needle.encode() not in _posted(ingest)


def _event(record: Record) -> dict[str, Any]:
    """An engine's record, as it is posted."""
    signal = basic(record)
    posted = {"id": signal.id, "kind": "basic", "name": signal.name, "data": record}
    found: dict[str, Any] = json.loads(msgspec.json.encode(posted))
    return found


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _joined(session: Session) -> int:
    """Of the shop's events."""
    producers = session.call("GET", "/v1/producers").json()["items"]
    return sum(one.get("joined", 0) for one in producers if one["producer"] == "shop")


def _command(session: Session, command_id: str) -> str:
    return str(session.call("GET", f"/v1/commands/{command_id}").json()["state"])


def _posted(ingest: Ingest) -> bytes:
    return b"".join(entry.body for entry in ingest.bus.read(after=0, limit=1_000_000))

"""The signals API over HTTP, with uvicorn, the SQLite log and real sockets."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from fastapi.testclient import TestClient

from signals.bus.memory import MemoryBus
from signals.bus.sqlite import SqliteBus, SqliteBusReader
from signals.codec import decode
from signals.definitions import StaticDefinitions
from signals.errors import Unavailable
from signals.ingest.app import make_app
from signals.ingest.main import run
from signals.settings import IngestSettings
from tests.signals.making import INTENTS, METRICS, request_id
from tests.signals.processes import KEYS, free_port

SHOP = {"Authorization": "Bearer shop-key"}


def event(id_: str, **changes: Any) -> dict[str, Any]:
    return {
        "id": id_,
        "kind": "business",
        "time": datetime.now(UTC).isoformat(),
        "name": "copied",
        "value": True,
        "request_id": request_id(1),
    } | changes


class Served:
    def __init__(self, client: httpx.Client, reader: SqliteBusReader) -> None:
        self.client = client
        self.reader = reader

    def post(self, body: Any, **headers: str) -> httpx.Response:
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        sent = {"Content-Type": "application/json"} | SHOP
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.post("/v1/signals", content=content, headers=sent)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder, port, stop = tmp_path_factory.mktemp("ingest"), free_port(), threading.Event()
    thread = threading.Thread(target=serve, args=(folder, port, stop))
    thread.start()
    reader = SqliteBusReader(folder / "bus")
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=10) as client:
        wait_ready(client)
        yield Served(client, reader)
    stop.set()
    thread.join(10)
    assert not thread.is_alive()
    reader.close()


def serve(folder: Path, port: int, stop: threading.Event) -> None:
    run(
        bus=SqliteBus(folder / "bus"),
        keys=KEYS,
        definitions=StaticDefinitions(METRICS),
        targets=INTENTS.keys(),
        settings=IngestSettings(port=port, max_body_bytes=100_000, max_events=500),
        stop=stop,
    )


def wait_ready(client: httpx.Client) -> None:
    deadline_s = time.monotonic() + 10
    while time.monotonic() < deadline_s:
        try:
            if client.get("/readyz").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.02)
    raise AssertionError("ingest was not ready in time")


def test_an_acknowledged_event_is_on_the_log(served: Served) -> None:
    before = served.reader.end()
    answer = served.post(event("one"))
    assert answer.status_code == 202
    assert answer.json() == {"accepted": 1, "duplicates": 0, "refused": []}
    (entry,) = served.reader.read(after=before, limit=10)
    signal = decode(entry.body)
    assert (signal.id, signal.producer, signal.value) == ("one", "shop", 1.0)
    assert (entry.key, entry.producer) == ("chat", "shop")


def test_refused_events_are_named_and_the_others_taken(served: Served) -> None:
    before = served.reader.end()
    answer = served.post([event("p1"), event("p2", name="copies"), event("p3", value=7)])
    assert answer.status_code == 202
    assert answer.json()["accepted"] == 1
    assert [(each["index"], each["id"], each["field"]) for each in answer.json()["refused"]] == [
        (1, "p2", "name"),
        (2, "p3", "value"),
    ]
    assert answer.json()["refused"][0]["allowed"] == ["copied"]
    assert served.reader.end() == before + 1


def test_a_duplicate_is_taken_again_and_said_to_be_one(served: Served) -> None:
    served.post(event("twice"))
    answer = served.post([event("twice"), event("fresh")])
    assert answer.json()["accepted"] == 2
    assert answer.json()["duplicates"] == 1


def test_nothing_taken_is_422_with_every_reason(served: Served) -> None:
    before = served.reader.end()
    answer = served.post([event("n1", name="copies"), event("n2", request_id="x")])
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert len(answer.json()["refused"]) == 2
    assert served.reader.end() == before


@pytest.mark.parametrize("authorization", ["", "Bearer guess", "Basic shop-key", "shop-key"])
def test_without_a_known_key_it_is_401(served: Served, authorization: str) -> None:
    answer = served.post(event("k"), Authorization=authorization)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["status"] == 401


def test_a_key_for_other_things_is_403(served: Served) -> None:
    assert served.post(event("k"), Authorization="Bearer engine-key").status_code == 403
    narrow = {"Authorization": "Bearer narrow-key"}
    assert served.post(event("k", name="resent"), **narrow).status_code == 403
    mixed = served.post([event("k", name="resent"), event("k2")], **narrow)
    assert mixed.status_code == 202
    assert mixed.json()["refused"][0]["field"] == "name"


def test_too_much_is_413(served: Served) -> None:
    assert served.post(b" " * 100_001).status_code == 413
    assert served.post([1] * 501).status_code == 413
    bomb = gzip.compress(b" " * 10_000_000)
    answer = served.post(bomb, Content_Encoding="gzip")
    assert answer.status_code == 413
    assert answer.json()["allowed"] == 100_000


def test_a_long_body_without_a_length_is_given_up(served: Served) -> None:
    headers = SHOP | {"Content-Type": "application/json"}
    chunks = (b" " * 10_000 for _ in range(20))
    assert served.client.post("/v1/signals", content=chunks, headers=headers).status_code == 413


def test_unknown_types_are_415_and_broken_bodies_400(served: Served) -> None:
    answer = served.post(event("t"), Content_Type="text/csv")
    assert answer.status_code == 415
    assert "application/json" in answer.json()["allowed"]
    assert served.post(event("t"), Content_Encoding="br").status_code == 415
    assert served.post(b"[1,").status_code == 400
    assert served.post(b"x", Content_Encoding="gzip").status_code == 400


def test_gzip_lines_are_taken(served: Served) -> None:
    lines = b"\n".join(msgspec.json.encode(event(f"g{number}")) for number in range(300))
    answer = served.post(
        gzip.compress(lines), Content_Type="application/x-ndjson", Content_Encoding="gzip"
    )
    assert answer.json()["accepted"] == 300


def test_other_paths_and_methods_are_problem_documents(served: Served) -> None:
    for answer in (served.client.get("/nowhere"), served.client.get("/v1/signals")):
        assert answer.status_code in (404, 405)
        assert answer.headers["content-type"] == "application/problem+json"


def test_counters_count(served: Served) -> None:
    served.post(event("c1", value=9))
    text = served.client.get("/metrics").text
    assert 'trimtab_signals_accepted_total{kind="business"}' in text
    assert 'trimtab_signals_refused_total{field="value"}' in text
    assert served.client.get("/healthz").json() == {"status": "ok"}


def test_answers_do_not_wait_for_the_clients_delayed_acknowledgement(served: Served) -> None:
    """Without TCP_NODELAY on the server every answer on a kept connection takes 40 ms."""
    took_s = []
    for number in range(30):
        began_s = time.monotonic()
        assert served.post(event(f"d{number}")).status_code == 202
        took_s.append(time.monotonic() - began_s)
    assert sorted(took_s)[len(took_s) // 4] < 0.035


class FullBus(MemoryBus):
    def append(self, batch: Any) -> Any:
        raise Unavailable("events already wait", retry_after_s=2.5)

    def healthy(self) -> bool:
        return False


def test_what_cannot_be_made_durable_now_is_503_with_retry_after() -> None:
    app = make_app(
        bus=FullBus(),
        keys=KEYS,
        definitions=StaticDefinitions(METRICS),
        targets=INTENTS.keys(),
        settings=IngestSettings(),
    )
    with TestClient(app) as client:
        answer = client.post("/v1/signals", json=event("f"), headers=SHOP)
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "3"
        assert client.get("/readyz").status_code == 503


def test_a_port_that_is_taken_is_said_and_the_log_let_go(served: Served, tmp_path: Path) -> None:
    port = int(str(served.client.base_url).rstrip("/").rpartition(":")[2])
    with pytest.raises(Unavailable, match="cannot serve"):
        serve(tmp_path, port, threading.Event())
    SqliteBus(tmp_path / "bus").close()

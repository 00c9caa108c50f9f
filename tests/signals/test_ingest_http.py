"""Broken HTTP on real sockets, and ten times the load: bounded memory, no acknowledged loss."""

from __future__ import annotations

import multiprocessing
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random

import msgspec
import psutil
import pytest

from signals.bus.sqlite import SqliteBus, SqliteBusReader
from signals.codec import decode
from signals.definitions import StaticDefinitions
from signals.ingest import connections
from signals.ingest.inflight import memory_bound_bytes
from signals.ingest.main import run
from signals.settings import IngestSettings
from tests.signals.bus_contract import read_all
from tests.signals.posting import DECLARED, KEYS, TARGETS
from tests.signals.processes import free_port
from tests.signals.test_ingest import event

SMALL = {"max_connections": 8, "max_body_bytes": 262_144, "max_inflight_bytes": 1_048_576}


class Server:
    """Ingest on a port of its own, spoken to in bytes."""

    def __init__(self, folder: Path, port: int) -> None:
        self.port = port
        self.reader = SqliteBusReader(folder / "bus")

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)

    def send(self, *parts: bytes) -> bytes:
        """The answer's head and body on a connection of its own; b"" when it is closed on us."""
        with closing(self.connect()) as client:
            for part in parts:
                client.sendall(part)
            return read_answer(client)

    def ids(self) -> list[str]:
        return [decode(entry.body).id for entry in read_all(self.reader)]


def read_answer(client: socket.socket) -> bytes:
    answer = b""
    while b"\r\n\r\n" not in answer:
        try:
            received = client.recv(65_536)
        except ConnectionResetError:
            return answer
        if not received:
            return answer
        answer += received
    head, _, body = answer.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    while len(body) < length:
        body += client.recv(65_536)
    return head + b"\r\n\r\n" + body


def request(body: bytes, *headers: bytes, length: int | None = None) -> bytes:
    lines = [
        b"POST /v1/signals HTTP/1.1",
        b"Host: ingest",
        b"Authorization: Bearer all-key",
        b"Content-Type: application/x-ndjson",
        *headers,
    ]
    if length is None or length >= 0:
        lines.append(b"Content-Length: %d" % (len(body) if length is None else length))
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def line(id_: str) -> bytes:
    return msgspec.json.encode(event(id_)) + b"\n"


def serve(folder: Path, port: int, stop: threading.Event, **settings: float) -> None:
    run(
        bus=SqliteBus(folder / "bus"),
        keys=KEYS,
        definitions=StaticDefinitions(DECLARED),
        targets=TARGETS,
        settings=IngestSettings.model_validate(SMALL | {"port": port} | settings),
        stop=stop,
    )


@contextmanager
def serving(folder: Path, **settings: float) -> Iterator[Server]:
    port, stop = free_port(), threading.Event()
    thread = threading.Thread(target=serve, args=(folder, port, stop), kwargs=settings)
    thread.start()
    server = Server(folder, port)
    try:
        _wait_for(server)
        yield server
    finally:
        stop.set()
        thread.join(10)
        server.reader.close()
    assert not thread.is_alive()


def _wait_for(server: Server) -> None:
    deadline_s = time.monotonic() + 20
    while time.monotonic() < deadline_s:
        try:
            server.connect().close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise AssertionError("ingest did not listen in time")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("http")) as found:
        yield found


BROKEN = {
    "no HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\r\n\r\n", b"400"),
    "no version": (b"POST /v1/signals\r\n\r\n", b"401"),
    "two lengths": (request(line("x"), b"Content-Length: 7"), b"400"),
    "a length that is none": (request(b"", b"Content-Length: ten", length=-1), b"400"),
    "a negative length": (request(b"", b"Content-Length: -1", length=-1), b"400"),
    "a length beyond all bounds": (request(b"", length=10**15), b"413"),
    "a header without a name": (request(line("x"), b": value"), b"400"),
    "chunks that are none": (
        request(b"zz\r\nx\r\n0\r\n\r\n", b"Transfer-Encoding: chunked", length=-1),
        b"400",
    ),
    "a length and chunks": (
        request(b"0\r\n\r\n", b"Transfer-Encoding: chunked", length=5),
        b"400",
    ),
}


@pytest.mark.parametrize("case", BROKEN.values(), ids=BROKEN.keys())
def test_broken_http_is_answered_and_the_next_post_is_taken(
    case: tuple[bytes, bytes], server: Server
) -> None:
    raw, status = case
    before = server.ids()
    answer = server.send(raw)
    assert answer.split(b" ", 2)[1] == status
    assert server.send(request(line("next"))).startswith(b"HTTP/1.1 202")
    assert server.ids() == [*before, "next"]


def test_chunks_and_pipelined_posts_are_taken(server: Server) -> None:
    before = server.ids()
    first, second = line("chunk-1"), line("chunk-2")
    chunked = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (first, second))
    answer = server.send(request(chunked + b"0\r\n\r\n", b"Transfer-Encoding: chunked", length=-1))
    assert answer.endswith(b'{"accepted":2,"duplicates":0,"refused":[]}')
    with closing(server.connect()) as client:
        client.sendall(request(line("pipe-1")) + request(line("pipe-2")))
        assert read_answer(client).startswith(b"HTTP/1.1 202")
        assert read_answer(client).startswith(b"HTTP/1.1 202")
    assert server.ids() == [*before, "chunk-1", "chunk-2", "pipe-1", "pipe-2"]


OFFER = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABk")


def test_a_client_that_offers_to_upgrade_is_served_as_it_is(server: Server) -> None:
    before = server.ids()
    with closing(server.connect()) as client:
        for id_ in ("offer-1", "offer-2"):
            head, _, body = request(line(id_), *OFFER).partition(b"\r\n\r\n")
            client.sendall(head + b"\r\n\r\n" + body[:9])
            client.sendall(body[9:])
            assert read_answer(client).startswith(b"HTTP/1.1 202")
    assert server.ids() == [*before, "offer-1", "offer-2"]


def test_the_body_after_an_offer_that_was_overlooked_is_no_request(server: Server) -> None:
    before = server.ids()
    smuggled = request(line("smuggled"))
    with closing(server.connect()) as client:
        before_it, offer, after_it = request(smuggled, *OFFER).partition(b"h2c\r\n")
        for part in (before_it, offer, *after_it.partition(b"\r\n\r\n")):
            client.sendall(part)
            time.sleep(0.05)
        assert read_answer(client).startswith(b"HTTP/1.1 400")
        assert client.recv(100) == b""
    assert server.ids() == before


def test_half_a_body_is_not_taken(server: Server) -> None:
    before = server.ids()
    with closing(server.connect()) as client:
        client.sendall(request(line("half"), length=10_000))
    assert server.send(request(line("whole"))).startswith(b"HTTP/1.1 202")
    assert server.ids() == [*before, "whole"]


def test_a_body_that_is_not_wanted_is_never_asked_for(server: Server) -> None:
    """A client that waits for "100 Continue" learns of the refusal without sending a byte."""
    answer = server.send(request(b"", b"Expect: 100-continue", length=262_145))
    assert answer.startswith(b"HTTP/1.1 413")
    with closing(server.connect()) as client:
        client.sendall(request(b"", b"Expect: 100-continue", length=len(line("expected"))))
        assert client.recv(100).startswith(b"HTTP/1.1 100")
        client.sendall(line("expected"))
        assert read_answer(client).startswith(b"HTTP/1.1 202")


def test_too_many_connections_get_503_and_far_too_many_are_closed(server: Server) -> None:
    with_room = [server.connect() for _ in range(8)]
    crowd = [server.connect() for _ in range(4)]
    try:
        crowd[-1].sendall(request(line("crowd")))
        answer = read_answer(crowd[-1])
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"retry-after: 1" in answer
        assert b"application/problem+json" in answer
        with_room[0].sendall(request(line("early")))
        assert read_answer(with_room[0]).startswith(b"HTTP/1.1 202"), "who came first has a place"
        with_room[1].close()
        deadline_s = time.monotonic() + 10
        while not answer.startswith(b"HTTP/1.1 202"):
            assert time.monotonic() < deadline_s, "the crowd does not move up"
            crowd[-1].sendall(request(line("moved-up")))
            answer = read_answer(crowd[-1])
        throng = [server.connect() for _ in range(8)]
        crowd += throng
        throng[-1].sendall(request(line("throng")))
        assert read_answer(throng[-1]) == b""
    finally:
        for each in with_room + crowd:
            each.close()
    _until_taken(server, "room-again")


def _until_taken(server: Server, id_: str) -> None:
    deadline_s = time.monotonic() + 10
    while not server.send(request(line(id_))).startswith(b"HTTP/1.1 202"):
        assert time.monotonic() < deadline_s, "the connections were not given back"
        time.sleep(0.02)


def test_a_client_that_does_not_finish_its_headers_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEADERS_S", 0.2)
    with serving(tmp_path) as server, closing(server.connect()) as client:
        client.sendall(b"POST /v1/signals HTTP/1.1\r\nHost: in")
        assert client.recv(100) == b""


# --------------------------------------------------------------------------------- saturation


class Flood(threading.Thread):
    """One client of many: posts as fast as it is answered, and keeps what was acknowledged."""

    def __init__(self, server: Server, seed: int, until_s: float) -> None:
        super().__init__()
        self.server = server
        self.random = Random(seed)
        self.name_ = f"c{seed}"
        self.until_s = until_s
        self.acknowledged: list[str] = []
        self.statuses: dict[int, int] = {}

    def run(self) -> None:
        number = 0
        with closing(self.server.connect()) as client:
            while time.monotonic() < self.until_s:
                ids = [f"{self.name_}-{number}-{n}" for n in range(self.random.randint(300, 700))]
                number += 1
                client.sendall(request(b"".join(TEMPLATE % id_.encode() for id_ in ids)))
                answer = read_answer(client)
                status = int(answer.split(b" ", 2)[1])
                self.statuses[status] = self.statuses.get(status, 0) + 1
                if status == 202:
                    self.acknowledged += ids
                else:
                    assert b"retry-after" in answer


TEMPLATE = line("%s")
SATURATED = {"max_connections": 100, "max_inflight_bytes": 1_048_576}


def _serve_apart(folder: Path, port: int) -> None:
    serve(folder, port, threading.Event(), **SATURATED)


def test_at_many_times_the_load_memory_is_bounded_and_all_that_was_acknowledged_is_there(
    tmp_path: Path,
) -> None:
    """40 clients want at least ten times the megabyte that may be in hand."""
    port = free_port()
    spawning = multiprocessing.get_context("spawn")
    ingest = spawning.Process(target=_serve_apart, args=(tmp_path, port))
    ingest.start()
    try:
        server = Server(tmp_path, port)
        _wait_for(server)
        server.send(request(line("first")))
        resident = psutil.Process(ingest.pid).memory_info
        idle = peak = resident().rss
        floods = [Flood(server, seed, time.monotonic() + 4) for seed in range(40)]
        for flood in floods:
            flood.start()
        while any(flood.is_alive() for flood in floods):
            peak = max(peak, resident().rss)
            time.sleep(0.02)
        statuses = [flood.statuses for flood in floods]
        assert {status for each in statuses for status in each} == {202, 503}, statuses
        settings = IngestSettings.model_validate(SMALL | SATURATED)
        assert peak - idle < memory_bound_bytes(settings)
        there = set(server.ids())
        for flood in floods:
            assert there.issuperset(flood.acknowledged)
        assert sum(len(flood.acknowledged) for flood in floods) > 10_000
        assert server.send(request(line("afterwards"))).startswith(b"HTTP/1.1 202")
    finally:
        ingest.kill()
        ingest.join(10)
        server.reader.close()

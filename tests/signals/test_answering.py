"""Clients that do not read their answers: counted as long as they wait, and not for ever."""

from __future__ import annotations

import asyncio
import select
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from signals.bus.memory import MemoryBus
from signals.ingest.answering import ABORT, PIECE_BYTES
from tests.signals.asgi import app_on, is_unavailable, post, run, until
from tests.signals.test_ingest_http import request, serving

ZEROS = b"[" + b",".join([b"0"] * 9_500) + b"]"
"""Refused one by one in half a megabyte."""


class Deaf:
    """A client that reads nothing of its answer beyond the first piece."""

    def __init__(self) -> None:
        self.pieces: list[int] = []
        self.aborted = False
        self.scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/signals",
            "state": {ABORT: self.abort},
            "headers": [
                (b"content-type", b"application/json"),
                (b"authorization", b"Bearer all-key"),
            ],
        }

    def abort(self) -> None:
        self.aborted = True

    async def receive(self) -> dict[str, Any]:
        return {"type": "http.request", "body": ZEROS, "more_body": False}

    async def send(self, message: dict[str, Any]) -> None:
        if self.pieces:
            await asyncio.Event().wait()
        if message["type"] == "http.response.body":
            self.pieces.append(len(message["body"]))


def test_an_answer_that_is_not_read_is_in_hand_until_it_is_given_up() -> None:
    async def scenario() -> None:
        app = app_on(MemoryBus(), max_inflight_bytes=1_048_576, body_timeout_s=0.3)
        deaf = Deaf()
        answering = asyncio.create_task(app(deaf.scope, deaf.receive, deaf.send))
        await until(lambda: bool(deaf.pieces))
        assert deaf.pieces == [PIECE_BYTES]
        assert is_unavailable(await post(app, ZEROS))
        assert not deaf.aborted
        await answering
        assert deaf.aborted
        assert (await post(app, ZEROS)).status == 422

    run(scenario())


def test_an_answer_in_pieces_is_whole() -> None:
    async def scenario() -> None:
        answer = await post(app_on(MemoryBus()), ZEROS)
        assert [each["index"] for each in answer.body["refused"]] == list(range(9_500))

    run(scenario())


def test_a_connection_whose_answer_is_not_read_is_closed(tmp_path: Path) -> None:
    long = b"".join(b'{"%b":1}\n' % (b"f" * 400) for _ in range(9_500))
    bounds = {"max_body_bytes": 4_194_304, "max_inflight_bytes": 12_000_000, "max_events": 10_000}
    blank = request(b" " * 3_000_000)
    with (
        serving(tmp_path, body_timeout_s=0.5, **bounds) as server,
        closing(server.connect()) as client,
    ):
        client.sendall(request(long))
        assert select.select([client], [], [], 10)[0], "its answer has begun"
        statuses = list[bytes]()
        deadline_s = time.monotonic() + 10
        while statuses[-2:] != [b"503", b"400"]:
            assert time.monotonic() < deadline_s, statuses
            statuses.append(server.send(blank).split(b" ", 2)[1])
            time.sleep(0.02)
        answer, more = b"", True
        while more:
            try:
                more = bool(received := client.recv(65_536))
            except ConnectionResetError:
                return
            answer += received
        length = int(answer.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        assert len(answer) < length

"""The ingest application called as a server would call it, on a bus that holds its commits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any

import msgspec
from msgspec import Struct

from signals.bus.memory import MemoryBus
from signals.bus.port import Message
from signals.definitions import StaticDefinitions
from signals.errors import Unavailable
from signals.ingest.app import make_app
from signals.ingest.connections import SURPLUS
from signals.settings import IngestSettings
from tests.signals.making import T0_US
from tests.signals.posting import DECLARED, KEYS, TARGETS


class Answer(Struct):
    """What an application sent, and how often it asked for more of the body."""

    status: int
    headers: dict[str, str]
    body: Any
    reads: int


class Holding(MemoryBus):
    """A bus that holds back its commits until they are let go, or fails them."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[tuple[Sequence[Message], Future[None]]] = []

    def append(self, batch: Sequence[Message]) -> Future[None]:
        future: Future[None] = Future()
        self.held.append((list(batch), future))
        return future

    def let_go(self) -> None:
        for batch, future in self.held:
            super().append(batch)
            future.set_result(None)
        self.held.clear()

    def fail(self) -> None:
        for _, future in self.held:
            future.set_exception(Unavailable("the disk is full", retry_after_s=2.0))
        self.held.clear()


def app_on(bus: MemoryBus, **settings: float) -> Any:
    return make_app(
        bus=bus,
        keys=KEYS,
        definitions=StaticDefinitions(DECLARED),
        targets=TARGETS,
        settings=IngestSettings.model_validate(settings),
        clock=lambda: T0_US,
    )


async def post(
    app: Any, *chunks: bytes | None, key: str = "all-key", surplus: bool = False, **headers: str
) -> Answer:
    """Call the application as a server would; a chunk of None never comes."""
    sent = {"content-type": "application/json", "authorization": f"Bearer {key}"} | headers
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/signals",
        "state": {SURPLUS: surplus},
        "headers": [(k.replace("_", "-").encode(), v.encode()) for k, v in sent.items()],
    }
    answer = Answer(0, {}, b"", 0)

    async def receive() -> dict[str, Any]:
        number, answer.reads = answer.reads, answer.reads + 1
        if number == len(chunks):
            return {"type": "http.disconnect"}
        chunk = chunks[number]
        if chunk is None:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": chunk, "more_body": number < len(chunks) - 1}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = {k.decode(): v.decode() for k, v in message["headers"]}
        else:
            answer.body += message["body"]

    await app(scope, receive, send)
    answer.body = msgspec.json.decode(answer.body)
    return answer


def is_unavailable(answer: Answer) -> bool:
    """503, as a problem document that says when to come back."""
    return (
        answer.status == answer.body["status"] == 503
        and answer.headers["content-type"] == "application/problem+json"
        and int(answer.headers["retry-after"]) >= 1
    )


def run(scenario: Coroutine[Any, Any, None], within_s: float = 10.0) -> None:
    """On a loop of its own, which ends in time whatever the application does."""
    asyncio.run(asyncio.wait_for(scenario, within_s))


async def until(seen: Callable[[], bool]) -> None:
    """Let the loop turn until it is so."""
    for _ in iter(seen, True):
        await asyncio.sleep(0.001)


def promising_more(app: Any) -> Any:
    """The application behind a server that promises more and then reports a hang-up."""

    async def promised(scope: Any, receive: Any, send: Any) -> None:
        async def more() -> Any:
            message = await receive()
            return message | {"more_body": True} if "body" in message else message

        await app(scope, more, send)

    return promised

"""Posts that a bus does not take, whatever its reason: everybody is told, nobody waits for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future

import msgspec
import pytest

from signals.bus.memory import MemoryBus
from signals.bus.port import Message
from signals.codec import decode
from signals.errors import Rejected
from tests.signals.asgi import Holding, app_on, post, run, until
from tests.signals.posted_events import event

BODY = msgspec.json.encode([event(id="e1")])


class Narrow(Holding):
    """Takes no event whose id is ``giant``."""

    def append(self, batch: Sequence[Message]) -> Future[None]:
        if any(decode(message.body).id == "giant" for message in batch):
            raise Rejected("larger than the log takes")
        return super().append(batch)


def test_a_post_that_the_bus_rejects_is_told_and_takes_no_other_with_it() -> None:
    async def scenario() -> None:
        bus = Narrow()
        app = app_on(bus, max_inflight_bytes=1_048_576)
        giant = msgspec.json.encode([event(id=f"e{n}") for n in range(9)] + [event(id="giant")])
        for _ in range(3):
            posts = [asyncio.create_task(post(app, each)) for each in (BODY, giant, BODY)]
            await until(lambda: len(bus.held) == 2)
            bus.let_go()
            assert [(await each).status for each in posts] == [202, 422, 202]
            slow = await post(app, giant, key="slow-key")
            assert slow.status == 422, "what was not taken is not counted against the rate"

    run(scenario())


class Mistaken(MemoryBus):
    def append(self, batch: Sequence[Message]) -> Future[None]:
        raise KeyError("partition")


def test_whatever_the_bus_raises_nobody_is_left_waiting() -> None:
    async def scenario() -> None:
        app = app_on(Mistaken())
        posts = [asyncio.create_task(post(app, BODY)) for _ in range(2)]
        for each in posts:
            with pytest.raises(KeyError):
                await each

    run(scenario())


def test_an_event_that_is_larger_than_the_log_takes_is_refused_by_itself() -> None:
    async def scenario() -> None:
        bus = MemoryBus()
        bus.max_event_bytes = 300
        app = app_on(bus)
        long = event(id="l" * 200)
        answer = await post(app, msgspec.json.encode([event(id="a"), long, event(id="b")]))
        assert (answer.status, answer.body["accepted"]) == (202, 2)
        (refused,) = answer.body["refused"]
        assert (refused["index"], refused["id"]) == (1, "l" * 200)
        assert "larger than the log takes" in refused["reason"]
        assert refused["allowed"] == "300 bytes at most"

    run(scenario())

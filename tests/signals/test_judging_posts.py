"""Large posts are judged one after the other, for read they are many times their size."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import msgspec
import pytest

from signals.bus.memory import MemoryBus
from signals.ingest import posting
from signals.ingest.reading import BESIDE_BYTES
from signals.ingest.sorting import SLICE, Sorting
from tests.signals.asgi import app_on, post, run
from tests.signals.posted_events import event


class Watched(Sorting):
    """Notes how many are read and not yet judged."""

    now = 0
    most = 0

    def pauses(self) -> Iterator[None]:
        Watched.now += 1
        Watched.most = max(Watched.most, Watched.now)
        yield from super().pauses()
        Watched.now -= 1


def test_one_large_post_is_read_at_a_time_and_small_ones_come_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(posting, "Sorting", Watched)
    large = msgspec.json.encode([event(id=f"e{n}") for n in range(3 * SLICE)])
    assert len(large) > BESIDE_BYTES
    answered: list[str] = []

    async def answer(app: object, name: str, body: bytes) -> None:
        assert (await post(app, body)).status == 202
        answered.append(name)

    async def scenario() -> None:
        app = app_on(MemoryBus())
        small = msgspec.json.encode(event(id="small"))
        posts = [answer(app, "large", large) for _ in range(4)]
        await asyncio.gather(*posts, answer(app, "small", small))

    run(scenario())
    assert Watched.most == 1
    assert answered == ["small", *["large"] * 4]

"""Jobs that never end and chats at given times, from this machine to the engine's chat API."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from random import Random
from typing import Any

import httpx
from msgspec import Struct

from examples.journey.phases import arrivals
from examples.journey.prompts import CHAT, CHATS, JOB, JOBS

CHATS_PER_S = 2.0
CHAT_TOKENS = (16, 24)
JOB_TOKENS = 32
WORKERS = 96
"""Jobs outstanding at any time: more than the largest cap, so that some always wait."""
TIMEOUT_S = 120.0
PAUSE_S = 0.5


class Chat(Struct, frozen=True, kw_only=True):
    """One chat of an arm: ``at_s`` after the phase with chats begins."""

    at_s: float
    text: str
    tokens: int
    seed: int


def chats(seed: int, *, on_s: float) -> list[Chat]:
    """The chats of one phase, the same for every arm that is given the seed."""
    rng = Random(seed)
    found: list[Chat] = []
    for at_s in arrivals(Random(rng.getrandbits(32)), on_s=on_s, off_s=0.0, per_s=CHATS_PER_S):
        if len(found) >= int(on_s * CHATS_PER_S):
            return found
        found.append(
            Chat(
                at_s=at_s,
                text=rng.choice(CHATS),
                tokens=rng.randint(*CHAT_TOKENS),
                seed=rng.getrandbits(32),
            )
        )
    return found


class Load:
    """Everything that is sent. ``failed``: requests without an answer, of whatever kind."""

    def __init__(self, client: httpx.AsyncClient, model: str, seed: int) -> None:
        self._client = client
        self._model = model
        self._rng = Random(seed)
        self.failed = 0

    async def flood(self) -> None:
        """``WORKERS`` jobs are outstanding at any time, until cancelled."""
        await asyncio.gather(*(self._work(Random(self._rng.random())) for _ in range(WORKERS)))

    async def talk(self, phase: Sequence[Chat]) -> None:
        """Every chat at its time, whatever became of the others; then until all have ended."""
        began_s = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for chat in phase:
                await asyncio.sleep(max(0.0, began_s + chat.at_s - time.monotonic()))
                group.create_task(self._send("live", CHAT, chat.text, chat.tokens, chat.seed))

    async def _work(self, rng: Random) -> None:
        while True:
            job = rng.choice(JOBS)
            if not await self._send("batch", JOB, job, JOB_TOKENS, rng.getrandbits(32)):
                await asyncio.sleep(PAUSE_S)

    async def _send(self, intent: str, system: str, text: str, tokens: int, seed: int) -> bool:
        messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
        body: dict[str, Any] = {"model": self._model, "messages": messages}
        body |= {"max_tokens": tokens, "seed": seed}
        answer = None
        with contextlib.suppress(httpx.HTTPError):
            answer = await self._client.post(
                "/v1/chat/completions", json=body, headers={"X-Trimtab-Intent": intent}
            )
        answered = answer is not None and not answer.is_error
        self.failed += not answered
        return answered


def connect(chat_url: str) -> httpx.AsyncClient:
    """A client for as many requests as can be outstanding."""
    return httpx.AsyncClient(
        base_url=chat_url,
        timeout=TIMEOUT_S,
        limits=httpx.Limits(max_connections=None),
        trust_env=False,
    )

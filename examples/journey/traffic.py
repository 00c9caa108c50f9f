"""SAMPLE traffic: a flood of short jobs, chats that come and go, users who copy or ask again.

::

    flood    N workers, each one job at a time ─► backlog for ever            intent batch
    chats    ▁▁████▁▁▁▁████▁▁  open loop, streamed                            intent live
    users    a moment after a chat: answer_copied, or edited_resend ─► POST /v1/signals

A process of its own: ``python -m examples.journey.traffic --help``. It ends on SIGTERM. Everything
is bounded: the workers, the chats in flight, the feedback that waits.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import ssl
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

import httpx

from examples.journey.phases import arrivals
from examples.journey.prompts import CHAT, CHATS, JOB, JOBS
from examples.journey.users import Feedback, Users

JOB_TOKENS = 16
CHAT_TOKENS = (16, 24)
CHATS_IN_FLIGHT = 64
TIMEOUT_S = 60.0
PAUSE_S = 0.5
STATS_EVERY_S = 1.0


@dataclass(kw_only=True)
class Stats:
    """What the traffic has done so far. ``marked``: so that nobody takes it for real users."""

    marked: str = "SAMPLE"
    jobs: int = 0
    chats: int = 0
    tokens: int = 0
    refused: int = 0
    failed: int = 0
    skipped: int = 0
    feedback: int = 0
    feedback_refused: int = 0


class Traffic:
    """Sends everything. ``chat``, ``signals``: base addresses."""

    def __init__(self, chat: str, model: str, rng: Random, stats: Stats, users: Users) -> None:
        self._chat = chat
        self._model = model
        self._rng = rng
        self._stats = stats
        self._users = users
        self._tls = ssl.create_default_context()
        self._chats: set[asyncio.Task[None]] = set()

    async def flood(self, workers: int) -> None:
        """``workers`` jobs are outstanding at any time."""
        await asyncio.gather(*(self._work(index) for index in range(workers)))

    async def talk(self, *, on_s: float, off_s: float, per_s: float) -> None:
        """Chats in phases, each begun at its time whatever became of the others."""
        began_s = time.monotonic()
        async with self._client() as client:
            for index, at_s in enumerate(arrivals(self._rng, on_s=on_s, off_s=off_s, per_s=per_s)):
                await asyncio.sleep(max(0.0, began_s + at_s - time.monotonic()))
                if len(self._chats) >= CHATS_IN_FLIGHT:
                    self._stats.skipped += 1
                    continue
                task = asyncio.create_task(self._one_chat(client, index))
                self._chats.add(task)
                task.add_done_callback(self._chats.discard)

    async def _work(self, index: int) -> None:
        rng = Random(self._rng.random())
        await asyncio.sleep(index * 0.01)
        async with self._client() as client:
            while True:
                body = self._ask(JOB, rng.choice(JOBS), JOB_TOKENS, rng)
                if not await self._job(client, body):
                    await asyncio.sleep(PAUSE_S)

    async def _job(self, client: httpx.AsyncClient, body: dict[str, Any]) -> bool:
        try:
            answer = await client.post(
                "/v1/chat/completions", json=body, headers={"X-Trimtab-Intent": "batch"}
            )
        except httpx.HTTPError:
            self._stats.failed += 1
            return False
        if answer.is_error:
            self._stats.refused += 1
            return False
        self._stats.jobs += 1
        self._stats.tokens += answer.json()["usage"]["completion_tokens"]
        return True

    async def _one_chat(self, client: httpx.AsyncClient, index: int) -> None:
        asked = self._users.next_prompt() or self._rng.choice(CHATS)
        tokens = self._rng.randint(*CHAT_TOKENS)
        body = self._ask(CHAT, asked, tokens, self._rng) | {"stream": True}
        headers = {"X-Trimtab-Intent": "live", "X-Trimtab-Session": f"sample-{index % 50}"}
        began_s, first_s, request_id = time.monotonic(), None, None
        try:
            async with client.stream(
                "POST", "/v1/chat/completions", json=body, headers=headers
            ) as answer:
                if answer.is_error:
                    self._stats.refused += 1
                    return
                async for line in answer.aiter_lines():
                    if request_id is None and line.startswith("data: {"):
                        request_id = json.loads(line[6:])["id"]
                    elif first_s is None and '"content"' in line:
                        first_s = time.monotonic()
        except httpx.HTTPError:
            self._stats.failed += 1
            return
        self._stats.chats += 1
        if request_id is not None:
            self._users.read(request_id, asked, waited_s=(first_s or time.monotonic()) - began_s)

    def _ask(self, system: str, text: str, tokens: int, rng: Random) -> dict[str, Any]:
        return {
            "model": self._model,
            "messages": [
                {"role": "system", "content": system},
                {"role": "user", "content": text},
            ],
            "max_tokens": tokens,
            "seed": rng.getrandbits(32),
        }

    def _client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=self._chat, timeout=TIMEOUT_S, verify=self._tls, trust_env=False
        )


async def tell(stats: Stats, path: Path) -> None:
    """Write the stats where the journey reads them, once a second."""
    while True:
        beside = path.with_suffix(".new")
        beside.write_text(json.dumps(asdict(stats)), encoding="utf-8")
        beside.replace(path)
        await asyncio.sleep(STATS_EVERY_S)


async def run(given: argparse.Namespace, key: str) -> None:
    """Everything at once, until SIGTERM."""
    rng, stats = Random(given.seed), Stats()
    async with httpx.AsyncClient(base_url=given.chat, timeout=TIMEOUT_S, trust_env=False) as client:
        model = (await client.get("/v1/models")).json()["data"][0]["id"]
    feedback = Feedback(given.signals, key, stats)
    users = Users(Random(rng.random()), feedback)
    traffic = Traffic(given.chat, model, rng, stats, users)
    parts = [
        asyncio.create_task(traffic.flood(given.flood)),
        asyncio.create_task(
            traffic.talk(on_s=given.on_s, off_s=given.off_s, per_s=given.chats_per_s)
        ),
        asyncio.create_task(feedback.post()),
        asyncio.create_task(tell(stats, Path(given.stats))),
    ]
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, lambda: [part.cancel() for part in parts])
    try:
        await asyncio.gather(*parts)
    except asyncio.CancelledError:
        await asyncio.gather(*parts, return_exceptions=True)


def main(words: Sequence[str] | None = None) -> None:
    """The process."""
    parser = argparse.ArgumentParser(description="SAMPLE traffic for the journey.")
    for name in ("chat", "signals", "key-file", "stats"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--flood", type=int, default=96)
    for name in ("on-s", "off-s", "chats-per-s"):
        parser.add_argument(f"--{name}", type=float, required=True)
    given = parser.parse_args(words)
    asyncio.run(run(given, Path(given.key_file).read_text(encoding="utf-8").strip()))


if __name__ == "__main__":
    main()

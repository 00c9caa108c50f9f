"""SAMPLE users: a moment after an answer they copy it, or edit their question and ask again."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from datetime import UTC, datetime
from random import Random
from typing import Any, Protocol

import httpx

THINK_S = (0.5, 2.5)
COPIES = 0.6
EDITS = 0.25
IMPATIENT_S = 1.0
"""Who waited longer for the first token copies half as often."""
BRIEFLY = " Please be brief."
WAITING = 1000
POST_EVERY_S = 1.0
TIMEOUT_S = 10.0


class Counts(Protocol):
    """Where posted feedback is counted."""

    feedback: int
    feedback_refused: int


class Feedback:
    """Feedback events on their way to the signals API, a batch a second."""

    def __init__(self, url: str, key: str, counts: Counts) -> None:
        self._url = url
        self._key = key
        self._counts = counts
        self._events: deque[dict[str, Any]] = deque(maxlen=WAITING)
        self._made = 0

    def add(self, name: str, request_id: str) -> None:
        """One user's act on one answer; the oldest goes when too many wait."""
        self._made += 1
        now = datetime.now(UTC)
        self._events.append(
            {
                "id": f"sample-{now.timestamp():.0f}-{self._made}",
                "kind": "business",
                "name": name,
                "time": now.isoformat(),
                "value": True,
                "request_id": request_id,
            }
        )

    async def post(self) -> None:
        """For ever. What could not be posted stays for the next time, under the same ids."""
        headers = {"Authorization": f"Bearer {self._key}"}
        async with httpx.AsyncClient(
            base_url=self._url, headers=headers, timeout=TIMEOUT_S, trust_env=False
        ) as client:
            while True:
                await asyncio.sleep(POST_EVERY_S)
                batch = list(self._events)
                if batch:
                    with contextlib.suppress(httpx.HTTPError):
                        await self._send(client, batch)

    async def _send(self, client: httpx.AsyncClient, batch: list[dict[str, Any]]) -> None:
        answer = await client.post("/v1/signals", json=batch)
        if answer.status_code >= 500:
            return
        sent = {event["id"] for event in batch}
        kept = [event for event in self._events if event["id"] not in sent]
        self._events.clear()
        self._events.extend(kept)
        told = answer.json()
        self._counts.feedback += told.get("accepted", 0)
        self._counts.feedback_refused += len(told.get("refused", ()))


class Users:
    """Reads answers, thinks, acts. An edited question becomes the next chat's."""

    def __init__(self, rng: Random, feedback: Feedback) -> None:
        self._rng = rng
        self._feedback = feedback
        self._edited: deque[str] = deque(maxlen=WAITING)

    def next_prompt(self) -> str | None:
        """An edited question that waits to be asked again."""
        return self._edited.popleft() if self._edited else None

    def read(self, request_id: str, asked: str, *, waited_s: float) -> None:
        """Decide what this user does, and when."""
        loop = asyncio.get_running_loop()
        copies = COPIES if waited_s <= IMPATIENT_S else COPIES / 2
        drawn = self._rng.random()
        if drawn < copies:
            loop.call_later(self._thinks_s(), self._feedback.add, "answer_copied", request_id)
        elif drawn < copies + EDITS:
            self._edited.append(f"{asked.removesuffix(BRIEFLY)}{BRIEFLY}")
            loop.call_later(self._thinks_s(), self._feedback.add, "edited_resend", request_id)

    def _thinks_s(self) -> float:
        return self._rng.uniform(*THINK_S)

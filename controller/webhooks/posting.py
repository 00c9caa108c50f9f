"""One attempt: the event read from the audit, signed, and posted. Nothing it raises holds a secret.

A redirect is not followed: the receiver was named by a person, not by whoever answers there. Only
the answer's status is read. The environment's proxies are not used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import httpx

from controller.store.past_port import Delivery
from controller.store.port import Store
from controller.webhooks.retrying import Attempt
from controller.webhooks.settings import WebhookSettings
from controller.webhooks.signing import parse_secrets, sign
from controller.webhooks.telling import body_of
from policies.policy import Policy
from signals.errors import NotFound, Rejected
from signals.events import MICROS

GONE: Final = 410
"""The receiver's word for "never again" (Standard Webhooks)."""
AGENT: Final = "trimtab-webhooks/1"


class Posting:
    """Posts deliveries. ``files``: hook -> its file of secrets, read at each attempt, so that a
    rotation needs no restart."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        store: Store,
        settings: WebhookSettings,
        files: Callable[[str], Path],
        *,
        clock: Callable[[], int],
    ) -> None:
        self._http = http
        self._store = store
        self._settings = settings
        self._files = files
        self._clock = clock

    async def attempt(self, delivery: Delivery) -> Attempt:
        """Try once, for ``timeout_s`` at most. Raises ``Unavailable`` only for the store's sake."""
        try:
            body, secrets = await asyncio.to_thread(self._prepare, delivery)
        except Rejected as error:
            return Attempt(delivery=delivery, error=error.detail)
        if body is None:
            return Attempt(delivery=delivery, error="its entry is not in the audit", final=True)
        headers = sign(delivery.id, self._clock() // MICROS, body, secrets)
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                return await self._post(delivery, body, headers)
        except TimeoutError:
            return Attempt(delivery=delivery, error="no answer in time")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return Attempt(delivery=delivery, error=f"no answer ({type(error).__name__})")

    def _prepare(self, delivery: Delivery) -> tuple[bytes | None, Sequence[bytes]]:
        """The body (None: its entry can't be read any more) and the secrets."""
        secrets = read_secrets(self._files(delivery.hook))
        with self._store.read() as tx:
            found = tx.audit(after=delivery.entry - 1, limit=1)
            if not found or found[0].index != delivery.entry:
                return None, secrets
            policy: Policy | None = None
            if found[0].action.startswith("policy."):
                policy = tx.policy(found[0].subject)
        return body_of(delivery, found[0], policy, limit=self._settings.body_bytes), secrets

    async def _post(self, delivery: Delivery, body: bytes, headers: dict[str, str]) -> Attempt:
        url = self._settings.hooks[delivery.hook].url
        sent = {**headers, "content-type": "application/json", "user-agent": AGENT}
        async with self._http.stream("POST", url, content=body, headers=sent) as answer:
            if answer.is_success:
                return Attempt(delivery=delivery)
            asked = answer.headers.get("retry-after", "")
            return Attempt(
                delivery=delivery,
                error=_said(answer),
                final=answer.status_code == GONE,
                retry_after_s=float(asked) if asked.isdecimal() and len(asked) < 8 else 0.0,
            )


def read_secrets(path: Path) -> tuple[bytes, ...]:
    """The secrets in a file. Raises ``Rejected`` without a word of what is in it."""
    try:
        return parse_secrets(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise NotFound(f"its secret can't be read ({type(error).__name__})") from error


def _said(answer: httpx.Response) -> str:
    redirect = " (redirects are not followed)" if answer.is_redirect else ""
    return f"answered {answer.status_code}{redirect}"

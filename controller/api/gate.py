"""The gate: an address that presents bad credentials again and again is not listened to a while.

It stands in front of everything else, so what is refused here costs no look-up and no body. A
lock's beginning is one entry in the audit (``auth.locked_out``, the address as its subject); what
was presented is written nowhere. When keys were last used is noted here too, after the answer.
"""

from __future__ import annotations

import asyncio
import logging

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controller.api.headers import bearer_of, values
from controller.api.ports import Services
from controller.api.problems import problem_answer
from controller.identity.lockout import Lockouts, address_of
from signals.errors import Unavailable
from signals.events import MICROS

NOTED_S = 60
"""Uses of keys are written down this often."""
ACTOR = "serve"

log = logging.getLogger(__name__)


class Gate:
    """An ASGI application around another. 429 with ``Retry-After`` for a locked address."""

    def __init__(self, app: ASGIApp, services: Services) -> None:
        self._app = app
        self._services = services
        self._settings = services.settings.lockout
        self._lockouts = Lockouts(self._settings)
        self._noted_us = services.clock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        token = bearer_of(scope) if scope["type"] == "http" else None
        if token is None:
            await self._app(scope, receive, send)
            return
        services, address = self._services, self._address(scope)
        wait_s = self._lockouts.wait_s(address, services.clock())
        if wait_s and not services.authenticator.was_good(token):
            detail = f"too many bad credentials from {address}; wait {wait_s} s"
            answer = problem_answer(429, detail, {"Retry-After": str(wait_s)})
            await answer(scope, receive, send)
            return
        await self._watched(address, scope, receive, send)
        await self._note_uses()

    async def _watched(self, address: str, scope: Scope, receive: Receive, send: Send) -> None:
        bad = False

        async def watch(message: Message) -> None:
            nonlocal bad
            bad = bad or (message["type"] == "http.response.start" and message["status"] == 401)
            await send(message)

        await self._app(scope, receive, watch)
        if bad:
            locked_s = self._lockouts.failed(address, self._services.clock())
            if locked_s is not None:
                log.warning("%s is locked out for %d s: bad credentials", address, locked_s)
                await asyncio.to_thread(self._record, address, locked_s)

    def _address(self, scope: Scope) -> str:
        peer = scope.get("client")
        forwarded = values(scope, "x-forwarded-for")
        return address_of(peer and peer[0], forwarded, self._settings.trusted_proxies)

    def _record(self, address: str, locked_s: int) -> None:
        try:
            with self._services.store.write() as tx:
                tx.append_audit(
                    at_us=self._services.clock(),
                    actor=ACTOR,
                    action="auth.locked_out",
                    subject=address,
                    target="",
                    details={"locked_s": locked_s, "failures": self._settings.failures},
                )
        except Unavailable as error:
            log.warning("the lock-out of %s is not in the audit: %s", address, error.detail)

    async def _note_uses(self) -> None:
        now_us = self._services.clock()
        if now_us - self._noted_us >= NOTED_S * MICROS:
            self._noted_us = now_us
            await asyncio.to_thread(self._write_uses)

    def _write_uses(self) -> None:
        try:
            with self._services.store.write() as tx:
                self._services.authenticator.note_uses(tx)
        except Unavailable as error:
            log.info("the uses of keys are not written down: %s", error.detail)

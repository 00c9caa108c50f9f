"""``Idempotency-Key``: the same call again brings the first answer again, and does nothing twice.

::

    same key, same call, answered before      the first answer, with Idempotent-Replayed: true
    same key, same call, still running        409
    same key, another call                    422
    nothing kept (a 5xx, or the key is old)   it is carried out

A call is its method, path, query, ``If-Match`` and body. Answers are kept in the store, so this
holds after a restart; a call that was cut off by one has no answer, and 409 says so: whether it
was carried out can be seen, not known here. An answer that says ``Cache-Control: no-store`` shows a
secret: only that there was one is kept. ``kill`` and ``hold`` wait for the store no longer than
``idempotency.stop_wait_ms`` and go on without; anything else goes on without when the store is
away, and then fails by itself. Of an erasure nothing is kept: its body names a person, even its
SHA-256 could be guessed back to him, and the same erasure again does no harm.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re

import msgspec
from msgspec import Struct
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controller.api.guard import WITH_BODY, read_body, replayed
from controller.api.headers import bearer_of, value_of, values, with_headers
from controller.api.ports import Services
from controller.api.problems import problem_answer
from controller.store.port import Principal
from signals.errors import Conflict, Denied, Unavailable
from signals.events import MICROS

KEY = re.compile(r"[\x21-\x7e]{1,255}")
STOPS = re.compile(r"/v1/(kill|hold|targets/[^/]+/(kill|hold))")
FORGOTTEN = frozenset({"/v1/erasures"})
NEVER_KEPT = frozenset({401, 403, 429})
"""Answers about the caller, not about the call."""
KEPT_HEADERS = ("content-type", "location", "etag")
REPLAYED = ("Idempotent-Replayed", "true")

log = logging.getLogger(__name__)


class Kept(Struct, frozen=True, kw_only=True):
    """An answer as the store has it. ``unkept``: why its body is not here."""

    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    unkept: str = ""


class Refused(Struct, frozen=True, kw_only=True):
    """The key can't be used for this call."""

    status: int
    detail: str


class Replay(Struct, frozen=True, kw_only=True):
    """What was answered before."""

    status: int
    kept: Kept


class Call(Struct, frozen=True, kw_only=True):
    """Whose key it is, and what it is used for."""

    principal: Principal
    key: str
    sha256: bytes
    stops: bool


class Replays:
    """An ASGI application around another; only calls with an ``Idempotency-Key`` are looked at."""

    def __init__(self, app: ASGIApp, services: Services) -> None:
        self._app = app
        self._services = services
        self._settings = services.settings.idempotency
        self._began_us = services.clock()
        self._pruned_us = 0
        self._late: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        named = values(scope, "idempotency-key") if scope["type"] == "http" else []
        token = bearer_of(scope) if named else None
        forgotten = scope.get("path", "").rstrip("/") in FORGOTTEN
        if token is None or scope["method"] not in WITH_BODY or forgotten:
            await self._app(scope, receive, send)
            return
        if len(named) > 1 or not KEY.fullmatch(named[0]):
            detail = "an Idempotency-Key is one value of 1..255 visible ASCII characters"
            await problem_answer(422, detail)(scope, receive, send)
            return
        principal = await asyncio.to_thread(self._caller, token)
        body = await read_body(receive, self._services.settings.serve.max_body_bytes)
        if body is None or principal is None:
            await self._app(scope, replayed(body or b"", receive), send)
            return
        call = Call(
            principal=principal,
            key=named[0],
            sha256=_digest(scope, body),
            stops=STOPS.fullmatch(scope["path"]) is not None,
        )
        await self._once(call, scope, replayed(body, receive), send)

    def _caller(self, token: str) -> Principal | None:
        """None for whom the app will refuse anyway."""
        try:
            return self._services.authenticator.lookup(token)
        except (Denied, Unavailable):
            return None

    async def _once(self, call: Call, scope: Scope, receive: Receive, send: Send) -> None:
        claiming = asyncio.create_task(asyncio.to_thread(self._claim, call))
        try:
            wait_s = self._settings.stop_wait_ms / 1000 if call.stops else None
            found = await asyncio.wait_for(asyncio.shield(claiming), wait_s)
        except (Unavailable, TimeoutError):
            found = None
        if isinstance(found, Refused):
            await problem_answer(found.status, found.detail)(scope, receive, send)
        elif isinstance(found, Replay):
            await _again(found, send)
        else:
            await self._carried_out(call, claiming, scope, receive, send)

    async def _carried_out(
        self,
        call: Call,
        claiming: asyncio.Task[Refused | Replay | None],
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        """Run the app, keep its answer, then send it; a stop is sent before it is kept."""
        messages: list[Message] = []

        async def take(message: Message) -> None:
            messages.append(message)

        status, kept = 500, Kept()
        try:
            await self._app(scope, receive, take)
            status, kept = _answer_in(messages, self._settings.max_answer_bytes)
        finally:
            keeping = asyncio.create_task(self._keep(call, claiming, status, kept))
            self._late.add(keeping)
            keeping.add_done_callback(self._late.discard)
            if not call.stops:
                await asyncio.shield(keeping)
            for message in messages:
                await send(message)

    def _claim(self, call: Call) -> Refused | Replay | None:
        """None: it is the first. Raises ``Unavailable``."""
        now_us = self._services.clock()
        oldest_us = now_us - self._settings.keep_s * MICROS
        try:
            with self._services.store.write() as tx:
                if now_us - self._pruned_us >= self._settings.prune_s * MICROS:
                    tx.prune_answers(oldest_us)
                    self._pruned_us = now_us
                found = tx.answered(call.principal.id, call.key)
                if found is not None and found.at_us < oldest_us:
                    tx.drop_answer(call.principal.id, call.key)
                    found = None
                if found is None:
                    tx.claim_answer(call.principal.id, call.key, call.sha256, now_us)
                    return None
        except Conflict as error:
            return Refused(status=409, detail=error.detail)
        if found.request_sha256 != call.sha256:
            return Refused(status=422, detail="the Idempotency-Key was used for another call")
        if found.status is None or found.body is None:
            return Refused(status=409, detail=self._unanswered(found.at_us))
        kept = msgspec.msgpack.decode(found.body, type=Kept)
        if kept.unkept:
            return Refused(status=409, detail=f"this was done already; {kept.unkept}")
        return Replay(status=found.status, kept=kept)

    def _unanswered(self, at_us: int) -> str:
        if at_us < self._began_us:
            return "this was begun before a restart and its outcome is not known: look, then decide"
        return "the first call with this Idempotency-Key is still running"

    async def _keep(
        self,
        call: Call,
        claiming: asyncio.Task[Refused | Replay | None],
        status: int,
        kept: Kept,
    ) -> None:
        try:
            if await claiming is None:
                await asyncio.to_thread(self._finish, call, status, kept)
        except Unavailable as error:
            log.warning("an answer is not kept for its Idempotency-Key: %s", error.detail)

    def _finish(self, call: Call, status: int, kept: Kept) -> None:
        with self._services.store.write() as tx:
            if status >= 500 or status in NEVER_KEPT:
                tx.drop_answer(call.principal.id, call.key)
            else:
                body = msgspec.msgpack.encode(kept)
                tx.finish_answer(call.principal.id, call.key, status, body)


def _digest(scope: Scope, body: bytes) -> bytes:
    """SHA-256 of what makes two calls the same; each part with its length before it."""
    expected = ",".join(values(scope, "if-match")).encode()
    parts = (
        scope["method"].encode(),
        scope["path"].encode(),
        scope["query_string"],
        expected,
        body,
    )
    hashed = hashlib.sha256()
    for part in parts:
        hashed.update(len(part).to_bytes(8, "big") + part)
    return hashed.digest()


def _answer_in(messages: list[Message], most: int) -> tuple[int, Kept]:
    """Status, and what may be kept of an answer."""
    start = messages[0]
    body = b"".join(message.get("body", b"") for message in messages[1:])
    if "no-store" in (value_of(start, "cache-control") or ""):
        return start["status"], Kept(unkept="what it showed is shown once")
    if len(body) > most:
        return start["status"], Kept(unkept=f"its answer had more than {most} bytes")
    found = ((name, value_of(start, name)) for name in KEPT_HEADERS)
    headers = tuple((name, value) for name, value in found if value is not None)
    return start["status"], Kept(headers=headers, body=body)


async def _again(found: Replay, send: Send) -> None:
    length = ("content-length", str(len(found.kept.body)))
    headers = found.kept.headers if found.status == 204 else (*found.kept.headers, length)
    start: Message = {"type": "http.response.start", "status": found.status, "headers": []}
    await send(with_headers(start, (*headers, REPLAYED)))
    await send({"type": "http.response.body", "body": found.kept.body})

"""Answers one conversation over HTTP, as a stream of events or whole.

A client that goes away is noticed at once, also while its request still waits in the queue: a
watcher reads the connection and cancels the generation, whose last output then ends the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from engine.generation import Output
from engine.http.answers import (
    DONE,
    Choice,
    Chunk,
    ChunkChoice,
    Completion,
    Said,
    error_body,
    event,
    finish_reason,
    usage,
)
from engine.http.conversations import Conversation
from engine.http.marks import STAMP_HEADER

Cancel = Callable[[str], None]


@asynccontextmanager
async def cancelled_when_gone(
    conversation: Conversation, receive: Receive, cancel: Cancel
) -> AsyncIterator[None]:
    """Cancel the generation as soon as the client disconnects, or the body fails."""

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            continue
        cancel(conversation.id)

    watcher = asyncio.create_task(watch())
    try:
        yield
    except BaseException:
        cancel(conversation.id)
        raise
    finally:
        watcher.cancel()


class AnswerResponse(Response):
    """A conversation's answer; an ASGI application, so that it sees the client leave."""

    def __init__(
        self, conversation: Conversation, cancel: Cancel, *, stream: bool, include_usage: bool
    ) -> None:
        stamp = msgspec.json.encode(conversation.stamp).decode()
        media_type = "text/event-stream" if stream else "application/json"
        super().__init__(headers={STAMP_HEADER: stamp}, media_type=media_type)
        self._conversation = conversation
        self._cancel = cancel
        self._stream = stream
        self._include_usage = include_usage

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        del scope
        async with cancelled_when_gone(self._conversation, receive, self._cancel):
            if self._stream:
                await self._send_events(send)
            else:
                await self._send_whole(send)

    async def _send_events(self, send: Send) -> None:
        headers = [(name, value) for name, value in self.raw_headers if name != b"content-length"]
        headers.append((b"cache-control", b"no-cache"))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async for piece in self._events():
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": DONE, "more_body": False})

    async def _events(self) -> AsyncIterator[bytes]:
        yield event(self._chunk(ChunkChoice(delta=Said(role="assistant", content=""))))
        async for output in self._conversation.outputs():
            if output.text:
                yield event(self._chunk(ChunkChoice(delta=Said(content=output.text))))
            if output.finish in ("stop", "length"):
                reason = finish_reason(output.finish)
                yield event(self._chunk(ChunkChoice(delta=Said(), finish_reason=reason)))
                if self._include_usage:
                    yield event(self._usage_chunk(output))
            elif output.finish is not None:
                yield event(_failure(output))

    async def _send_whole(self, send: Send) -> None:
        text, last = "", None
        async for output in self._conversation.outputs():
            text, last = text + output.text, output
        if last is None or last.finish not in ("stop", "length"):
            body, status = msgspec.json.encode(_failure(last)), _failure_status(last)
        else:
            body, status = msgspec.json.encode(self._completion(text, last)), 200
        self.headers["content-length"] = str(len(body))
        start = {"type": "http.response.start", "status": status, "headers": self.raw_headers}
        await send(start)
        await send({"type": "http.response.body", "body": body})

    def _completion(self, text: str, last: Output) -> Completion:
        talk = self._conversation
        reason = finish_reason(last.finish or "length")
        said = Said(role="assistant", content=text)
        return Completion(
            id=talk.id,
            created=talk.created,
            model=talk.model,
            choices=(Choice(message=said, finish_reason=reason),),
            usage=usage(talk.prompt_tokens, last.progress.output_tokens),
        )

    def _chunk(self, choice: ChunkChoice) -> Chunk:
        talk = self._conversation
        spent = None if self._include_usage else msgspec.UNSET
        return Chunk(
            id=talk.id, created=talk.created, model=talk.model, choices=(choice,), usage=spent
        )

    def _usage_chunk(self, last: Output) -> Chunk:
        talk = self._conversation
        spent = usage(talk.prompt_tokens, last.progress.output_tokens)
        return Chunk(id=talk.id, created=talk.created, model=talk.model, choices=(), usage=spent)


def _failure(last: Output | None) -> dict[str, object]:
    if last is not None and last.finish == "cancelled":
        return error_body("cancelled: the engine stops", kind="server_error", code="cancelled")
    reason = None if last is None else last.error
    return error_body(reason or "the engine failed", kind="server_error", code="engine_error")


def _failure_status(last: Output | None) -> int:
    return 503 if last is not None and last.finish == "cancelled" else 500

"""From a chat request to a running generation, and to what the client is told. Knows no HTTP.

::

    ask ► tokens ► (too long?) ► arrive: stamp, counted ► ledger: arrived ► submit ─► outputs
                                                                  │ full        │ last one
                                                                  ▼             ▼
                                                    ledger: ended, rejected   ledger: ended
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from engine.generation import Generation, Generator, Output, Progress, QueueFull
from engine.http.asks import BadAsk, ChatAsk
from engine.http.mailbox import Mailbox, Stream
from engine.http.marks import Marks
from engine.live_settings import LiveSettings
from engine.telemetry.ledger import EndedVisit, Ledger, Visit
from policies.runtime_config import Stamp
from signals.errors import NotFound, TrimtabError

LONG_TEXT = 16_384
"""Characters from which tokenising (about 1 µs each) leaves the event loop to a thread."""


class Templating(Protocol):
    """Chat messages to prompt tokens."""

    def chat(self, messages: Sequence[Mapping[str, str]]) -> tuple[int, ...]:
        """Token ids up to where the assistant is to speak. Raises ``Rejected``."""


class PromptTooLong(BadAsk):
    """The prompt leaves no room to answer."""

    code = "context_length_exceeded"


class Rooms(Struct, frozen=True, kw_only=True):
    """What bounds a request: the context, the prompt's share of it, the default answer."""

    context: int
    prompt_share: float
    default_max_tokens: int

    def max_tokens(self, prompt_tokens: int, asked: int | None) -> int:
        """The answer's bound. Raises ``PromptTooLong`` or ``BadAsk`` with both numbers."""
        prompt_limit = int(self.context * self.prompt_share)
        if prompt_tokens > prompt_limit:
            raise PromptTooLong(
                f"the prompt has {prompt_tokens} tokens; at most {prompt_limit}"
                f" ({self.prompt_share:g} of the context of {self.context}) are taken",
                field="messages",
            )
        room = self.context - prompt_tokens
        if asked is None:
            return min(self.default_max_tokens, room)
        if asked > room:
            raise PromptTooLong(
                f"{asked} tokens were asked for; beside the prompt's {prompt_tokens} the context"
                f" of {self.context} has room for {room}",
                field="max_tokens",
            )
        return asked


class Conversation(Struct, frozen=True, kw_only=True):
    """One accepted request. ``outputs`` ends with the output whose ``finish`` is set."""

    id: str
    model: str
    created: int
    prompt_tokens: int
    stamp: Stamp
    stream: Stream

    async def outputs(self) -> AsyncIterator[Output]:
        """The answer, piece by piece."""
        finished = False
        while not finished:
            output = await self.stream.get()
            finished = output.finish is not None
            yield output


class Conversations:
    """Opens conversations. Lives on the event loop."""

    def __init__(
        self,
        *,
        model: str,
        templating: Templating,
        generator: Generator,
        live: LiveSettings,
        ledger: Ledger,
        rooms: Rooms,
        mailbox: Mailbox,
    ) -> None:
        self._model = model
        self._templating = templating
        self._generator = generator
        self._live = live
        self._ledger = ledger
        self._rooms = rooms
        self._mailbox = mailbox
        self._open: set[str] = set()

    async def open(self, ask: ChatAsk, marks: Marks) -> Conversation:
        """Queue a request.

        Raises ``NotFound`` for another model, ``BadAsk`` for what does not fit, ``QueueFull``.
        """
        if ask.model != self._model:
            raise NotFound(f"no model {ask.model!r}", field="model", allowed=self._model)
        prompt = await self._prompt([message.plain() for message in ask.messages])
        max_tokens = self._rooms.max_tokens(len(prompt), ask.limit)
        arrival = self._live.arrive(
            marks.intent,
            marks.class_,
            prompt_tokens=len(prompt),
            max_tokens=max_tokens,
            session=marks.session_id,
        )
        generation = Generation(
            id=arrival.id,
            prompt=prompt,
            max_tokens=arrival.max_tokens,
            temperature=ask.temperature,
            top_p=ask.top_p,
            seed=_seed(ask.seed),
            stop=ask.stops,
            class_=marks.class_,
            intent=marks.intent,
            arrival_s=arrival.at.mono_s,
            stamp=arrival.stamp,
            external_id=marks.external_id,
            session_id=marks.session_id,
        )
        stream = self._submit(
            Visit(
                generation=generation,
                arrival_wall_s=arrival.at.wall_s,
                traceparent=marks.traceparent,
            )
        )
        return Conversation(
            id=generation.id,
            model=self._model,
            created=int(arrival.at.wall_s),
            prompt_tokens=len(prompt),
            stamp=arrival.stamp,
            stream=stream,
        )

    def cancel(self, conversation_id: str) -> None:
        """Stop making tokens for it; its stream still ends with a last output."""
        self._generator.cancel(conversation_id)

    def cancel_all(self) -> None:
        """Cancel every open conversation."""
        for conversation_id in tuple(self._open):
            self.cancel(conversation_id)

    async def _prompt(self, messages: list[dict[str, str]]) -> tuple[int, ...]:
        if sum(len(message["content"]) for message in messages) < LONG_TEXT:
            return self._templating.chat(messages)
        return await asyncio.to_thread(self._templating.chat, messages)

    def _submit(self, visit: Visit) -> Stream:
        self._ledger.arrived(visit)
        self._open.add(visit.generation.id)
        stream: Stream = asyncio.Queue()
        try:
            self._generator.submit(visit.generation, self._deliver(visit, stream))
        except TrimtabError as refused:
            self._open.discard(visit.generation.id)
            finish = "rejected" if isinstance(refused, QueueFull) else "error"
            self._end(visit, finish, Progress(), str(refused))
            raise
        return stream

    def _deliver(self, visit: Visit, stream: Stream) -> Callable[[Output], None]:
        """What the engine's thread calls with each output of this visit."""

        def deliver(output: Output) -> None:
            if output.finish is not None:
                self._open.discard(visit.generation.id)
                self._end(visit, output.finish, output.progress, output.error)
            self._mailbox.post(stream, output)

        return deliver

    def _end(self, visit: Visit, finish: str, progress: Progress, error: str | None) -> None:
        self._ledger.ended(
            EndedVisit(
                visit=visit,
                finish=finish,
                progress=progress,
                ended_s=time.monotonic(),
                error=error,
            )
        )


def _seed(asked: int | None) -> int:
    """The client's seed, or one of our own: 63 bits either way."""
    drawn = int.from_bytes(os.urandom(8), "little") if asked is None else asked
    return drawn & (2**63 - 1)

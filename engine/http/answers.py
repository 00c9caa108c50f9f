"""Answers in OpenAI's shapes: a completion, the chunks of a stream, an error."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from engine.generation import FinishReason
from signals.errors import Rejected


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens of one request."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Said(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message or the next piece of one."""

    role: str | UnsetType = UNSET
    content: str | UnsetType = UNSET


class Choice(Struct, frozen=True, kw_only=True):
    """The one choice of a completion."""

    index: int = 0
    message: Said
    logprobs: None = None
    finish_reason: str | None


class ChunkChoice(Struct, frozen=True, kw_only=True):
    """The one choice of a chunk."""

    index: int = 0
    delta: Said
    logprobs: None = None
    finish_reason: str | None = None


class Completion(Struct, frozen=True, kw_only=True):
    """A whole answer."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: tuple[Choice, ...]
    usage: Usage


class Chunk(Struct, frozen=True, kw_only=True):
    """A piece of a streamed answer. The usage chunk has no choices."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: tuple[ChunkChoice, ...]
    usage: Usage | UnsetType | None = UNSET


DONE = b"data: [DONE]\n\n"


def event(body: Struct | dict[str, object]) -> bytes:
    """One server-sent event."""
    return b"data: " + msgspec.json.encode(body) + b"\n\n"


def usage(prompt_tokens: int, completion_tokens: int) -> Usage:
    """Usage with its total."""
    return Usage(
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        total_tokens=prompt_tokens + completion_tokens,
    )


def finish_reason(finish: FinishReason) -> str:
    """OpenAI's word for how an answer ended; only ``stop`` and ``length`` are answers."""
    return "stop" if finish == "stop" else "length"


def error_body(
    message: str, *, kind: str, code: str | None, param: str | None = None
) -> dict[str, object]:
    """OpenAI's error object."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def refusal_body(refused: Rejected) -> dict[str, object]:
    """The error object of a request that was refused."""
    kinds = {401: "authentication_error", 403: "permission_error", 404: "not_found_error"}
    allowed = "" if refused.allowed is None else f" (allowed: {refused.allowed})"
    return error_body(
        refused.detail + allowed,
        kind=kinds.get(refused.status, "invalid_request_error"),
        code=getattr(refused, "code", None),
        param=refused.field,
    )

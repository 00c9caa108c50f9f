"""What a client may ask of ``/v1/chat/completions``, and what is refused rather than ignored.

Fields that would change the answer and are not supported (tools, log probabilities, penalties,
several choices) are refused; fields that would not (``user``, ``metadata``, …) are ignored.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, ValidationError, model_validator

from signals.errors import Rejected

MAX_MESSAGES = 1024
MAX_STOPS = 4

_EMPTY: dict[str, tuple[object, ...]] = {
    "n": (1,),
    "tools": ([],),
    "functions": ([],),
    "tool_choice": ("none", "auto"),
    "function_call": ("none", "auto"),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "frequency_penalty": (0, 0.0),
    "presence_penalty": (0, 0.0),
    "logit_bias": ({},),
    "modalities": (["text"],),
    "response_format": ({"type": "text"},),
}
"""Unsupported fields, and the values that ask for nothing. None always does."""


class BadAsk(Rejected):
    """A request that this API cannot serve; OpenAI's servers answer 400."""

    status = 400


class TextPart(BaseModel):
    """One piece of a message's content; only text is understood."""

    type: Literal["text"]
    text: str


class Message(BaseModel):
    """One turn of the conversation."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart]

    def plain(self) -> dict[str, str]:
        """The turn as the chat template knows it."""
        content = self.content
        text = content if isinstance(content, str) else "".join(part.text for part in content)
        return {"role": "system" if self.role == "developer" else self.role, "content": text}


class StreamOptions(BaseModel):
    """Options of a streamed answer."""

    include_usage: bool = False


class ChatAsk(BaseModel):
    """The body of a chat completion request."""

    model: str
    messages: Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES)]
    temperature: Annotated[float, Field(ge=0, le=2)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    stop: str | Annotated[list[str], Field(max_length=MAX_STOPS)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None

    @model_validator(mode="before")
    @classmethod
    def _refuse_unsupported(cls, body: Any) -> Any:
        """Drop explicit nulls (they mean "unset") and refuse what would change the answer."""
        if not isinstance(body, dict):
            return body
        given = {name: value for name, value in body.items() if value is not None}
        for name, harmless in _EMPTY.items():
            if name in given and given[name] not in harmless:
                raise BadAsk(f"{name} is not supported", field=name, allowed=harmless[0])
        return given

    @model_validator(mode="after")
    def _stops_are_not_empty(self) -> Self:
        if any(not stop for stop in self.stops):
            raise ValueError("a stop sequence is not empty")
        return self

    @property
    def stops(self) -> tuple[str, ...]:
        """Where the answer ends, as soon as one of them appears."""
        if self.stop is None:
            return ()
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    @property
    def limit(self) -> int | None:
        """The client's bound on the answer, in tokens."""
        if self.max_completion_tokens is not None:
            return self.max_completion_tokens
        return self.max_tokens

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with its usage."""
        return self.stream_options is not None and self.stream_options.include_usage


def parse_ask(body: bytes) -> ChatAsk:
    """Raises ``BadAsk`` naming the first field that is wrong."""
    try:
        return ChatAsk.model_validate_json(body)
    except ValidationError as wrong:
        first = wrong.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise BadAsk(f"{field}: {first['msg']}" if field else first["msg"], field=field) from None

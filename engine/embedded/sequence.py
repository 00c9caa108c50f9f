"""A request on its way through the engine."""

from __future__ import annotations

from collections.abc import Callable

from engine.embedded.kv import Lease
from engine.embedded.text import TextStream
from engine.generation import CLASSES, FinishReason, Generation, Output, Progress

OnOutput = Callable[[Output], None]


class Sequence:
    """Prompt and answer so far, and how many of its tokens are in the KV pool (``computed``).

    A preempted sequence keeps its tokens and loses its lease: it is prefilled again, answer
    included, and goes on drawing where it was.
    """

    __slots__ = (
        "admitted_s",
        "computed",
        "first_token_s",
        "last_token_s",
        "lease",
        "on_output",
        "preemptions",
        "prompt_tokens",
        "request",
        "served",
        "text",
        "tokens",
    )

    def __init__(self, request: Generation, on_output: OnOutput) -> None:
        self.request = request
        self.on_output = on_output
        self.tokens = list(request.prompt)
        self.prompt_tokens = len(request.prompt)
        self.computed = 0
        self.lease: Lease | None = None
        self.text = TextStream(stop=request.stop)
        self.served = 0
        self.preemptions = 0
        self.admitted_s: float | None = None
        self.first_token_s: float | None = None
        self.last_token_s: float | None = None

    @property
    def rank(self) -> int:
        """0 for the class that is served first."""
        return CLASSES.index(self.request.class_)

    @property
    def pending(self) -> int:
        """Tokens not yet in the KV pool: 1 while decoding, more while prefilling."""
        return len(self.tokens) - self.computed

    @property
    def output_tokens(self) -> int:
        """Tokens drawn so far, the end token included."""
        return len(self.tokens) - self.prompt_tokens

    def accept(
        self, token: int, piece: bytes, *, ended: bool, context: int, now_s: float
    ) -> Output:
        """Append a drawn token. ``ended``: it is an end token. Sets ``finish`` on the last output.

        ``context``: the longest the sequence may be, in tokens.
        """
        self.tokens.append(token)
        self.first_token_s = now_s if self.first_token_s is None else self.first_token_s
        self.last_token_s = now_s
        text = "" if ended else self.text.push(piece)
        full = self.output_tokens >= self.request.max_tokens or len(self.tokens) >= context
        if ended or self.text.stopped:
            return self.output(text + self.text.flush(), (token,), finish="stop")
        if full:
            return self.output(text + self.text.flush(), (token,), finish="length")
        return self.output(text, (token,))

    def output(
        self,
        text: str = "",
        tokens: tuple[int, ...] = (),
        *,
        finish: FinishReason | None = None,
        error: str | None = None,
    ) -> Output:
        """An output with this sequence's progress."""
        progress = Progress(
            admitted_s=self.admitted_s,
            first_token_s=self.first_token_s,
            last_token_s=self.last_token_s,
            output_tokens=self.output_tokens,
            preemptions=self.preemptions,
        )
        return Output(
            id=self.request.id,
            text=text,
            tokens=tokens,
            finish=finish,
            error=error,
            progress=progress,
        )

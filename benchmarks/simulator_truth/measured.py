"""What a real engine's log says: requests and samples, in one form for every log."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct


class Request(Struct, frozen=True, kw_only=True):
    """One request, in seconds since the log's first arrival."""

    id: str
    arrival_s: float
    first_s: float
    last_s: float
    prompt_tokens: int
    output_tokens: int

    @property
    def ttft_s(self) -> float:
        """From arrival to the first token."""
        return self.first_s - self.arrival_s

    @property
    def tpot_s(self) -> float:
        """Between tokens on average; 0 below two tokens."""
        return (self.last_s - self.first_s) / max(1, self.output_tokens - 1)


class Sample(Struct, frozen=True, kw_only=True):
    """The engine's own figures: tokens of the interval up to ``at_s``, counts at its end."""

    at_s: float
    length_s: float
    running: float
    waiting: float
    prompt_tokens: float
    output_tokens: float


class Run(Struct, frozen=True, kw_only=True):
    """A real engine's run, requests by arrival and samples by time."""

    name: str
    requests: Sequence[Request]
    samples: Sequence[Sample]


def context_tokens(requests: Sequence[Request], at_s: float) -> float:
    """Tokens in the memory of sequences that decode at a moment, tokens coming evenly."""
    return sum(
        r.prompt_tokens + r.output_tokens * (at_s - r.first_s) / (r.last_s - r.first_s)
        for r in requests
        if r.first_s <= at_s < r.last_s
    )

"""How many tokens a request has: distributions to draw prompt and output lengths from.

>>> Uniform(prompt_tokens=(64, 64), output_tokens=(8, 40)).draw(np.random.default_rng(1), 3)
[(64, 23), (64, 24), (64, 32)]

Prompt and output are drawn apart: the traces that publish distributions publish the two alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from msgspec import Struct

from engine.simulated.arrivals.bounds import MOST_TOKENS, within
from signals.errors import Rejected

MOST_SD = 10.0
Pairs = list[tuple[int, int]]
"""Prompt and output tokens of some requests, each at least 1."""


class Lengths(Protocol):
    """Something to draw lengths from."""

    def draw(self, rng: np.random.Generator, count: int) -> Pairs:
        """``count`` independent pairs."""
        ...


class Uniform(Struct, frozen=True, kw_only=True):
    """All lengths from fewest to most, both included, are equally likely."""

    prompt_tokens: tuple[int, int]
    output_tokens: tuple[int, int]

    def __post_init__(self) -> None:
        for field in ("prompt_tokens", "output_tokens"):
            fewest, most = getattr(self, field)
            within(field, fewest, 1, MOST_TOKENS)
            within(field, most, fewest, MOST_TOKENS)

    def draw(self, rng: np.random.Generator, count: int) -> Pairs:
        """``count`` independent pairs."""
        prompts, outputs = (
            rng.integers(fewest, most + 1, size=count).tolist()
            for fewest, most in (self.prompt_tokens, self.output_tokens)
        )
        return list(zip(prompts, outputs, strict=True))


class LogNormal(Struct, frozen=True, kw_only=True):
    """Medians and standard deviations of the logarithm; long tails, cut off at ``most_tokens``."""

    prompt_median_tokens: float
    prompt_sd: float
    output_median_tokens: float
    output_sd: float
    most_tokens: int = 8192

    def __post_init__(self) -> None:
        within("most_tokens", self.most_tokens, 1, MOST_TOKENS)
        within("prompt_median_tokens", self.prompt_median_tokens, 1, self.most_tokens)
        within("output_median_tokens", self.output_median_tokens, 1, self.most_tokens)
        within("prompt_sd", self.prompt_sd, 0.0, MOST_SD)
        within("output_sd", self.output_sd, 0.0, MOST_SD)

    def draw(self, rng: np.random.Generator, count: int) -> Pairs:
        """``count`` independent pairs."""
        shapes = (
            (self.prompt_median_tokens, self.prompt_sd),
            (self.output_median_tokens, self.output_sd),
        )
        prompts, outputs = (
            np.clip(rng.lognormal(np.log(median), sd, count).round(), 1, self.most_tokens)
            .astype(int)
            .tolist()
            for median, sd in shapes
        )
        return list(zip(prompts, outputs, strict=True))


class Observed:
    """Frequencies that were observed: from tokens to weight; a length of 0 counts as 1.

    An engine that was asked gives at least one token, or tells an error.
    """

    def __init__(self, prompts: Mapping[int, float], outputs: Mapping[int, float]) -> None:
        self._tables = tuple(_table(weights) for weights in (prompts, outputs))

    def draw(self, rng: np.random.Generator, count: int) -> Pairs:
        """``count`` independent pairs."""
        prompts, outputs = (
            tokens[np.searchsorted(cumulated, rng.random(count), side="right")].tolist()
            for tokens, cumulated in self._tables
        )
        return list(zip(prompts, outputs, strict=True))


def _table(weights: Mapping[int, float]) -> tuple[np.ndarray, np.ndarray]:
    if not weights or min(weights) < 0 or not all(0 <= w < np.inf for w in weights.values()):
        detail = "weights: at least one length of 0 or more, with finite weights of 0 or more"
        raise Rejected(detail, field="weights", value=dict(list(weights.items())[:3]))
    total = sum(weights.values())
    if total <= 0:
        raise Rejected("weights: their sum is 0", field="weights", value=0, allowed="above 0")
    tokens = np.array(sorted(weights))
    cumulated = np.cumsum([weights[length] for length in tokens.tolist()]) / total
    cumulated[-1] = 1.0
    return np.maximum(tokens, 1), cumulated

"""Which intent and class a request is given: traces do not say.

A rule looks at the lengths alone. They are exogenous: a rule that looked at how the engine does
would let the load depend on what is tried.

>>> by_output_tokens(above=200)(1_000, 44).intent, by_output_tokens(above=200)(1_000, 500).intent
('live', 'batch')
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec import Struct

from engine.generation import Class
from engine.simulated.arrivals.bounds import within


class Kind(Struct, frozen=True):
    """An intent and the class that it has."""

    intent: str
    class_: Class


Assign = Callable[[int, int], Kind]
"""From prompt and output tokens to a kind; asked once a request, in the order of arrival."""

LIVE = Kind("live", "interactive")
BATCH = Kind("batch", "batch")


def always(kind: Kind) -> Assign:
    """Every request is of one kind."""
    return lambda prompt_tokens, output_tokens: kind


def by_share(
    share: float, rng: np.random.Generator, *, drawn: Kind = LIVE, rest: Kind = BATCH
) -> Assign:
    """A share in [0, 1] of the requests, by independent draws, is ``drawn``; all others ``rest``.

    >>> assign = by_share(0.5, np.random.default_rng(1))
    >>> [assign(10, 10).intent for _ in range(4)]
    ['batch', 'batch', 'live', 'batch']
    """
    within("share", share, 0.0, 1.0)
    return lambda prompt_tokens, output_tokens: drawn if rng.random() < share else rest


def by_output_tokens(*, above: int, longer: Kind = BATCH, rest: Kind = LIVE) -> Assign:
    """Requests that get more than ``above`` output tokens are ``longer``, all others ``rest``."""
    return lambda prompt_tokens, output_tokens: longer if output_tokens > above else rest

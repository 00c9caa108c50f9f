"""Azure's conversation hour as chats: its moments as they were, its lengths made the model's.

The hour has 5.4 requests a second with 211 tokens on average, and the model's engine is a small
one. So three copies of the hour, each turned to begin at a moment drawn for the path, are laid over
one another and thinned by a coin per request to the rate that is asked for; answers have a ninth of
the hour's tokens, 2 to 40 of them. Paths share the hour's requests, so they are less than
independent. Bursts of the trace stay where they were, three deep.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache

import numpy as np
from numpy.typing import NDArray

from benchmarks import traces
from benchmarks.queue_model import LIVE, LIVE_TOKENS, Request
from engine.simulated.arrivals.azure import conversations
from engine.simulated.arrivals.kinds import LIVE as LIVE_KIND
from engine.simulated.arrivals.kinds import always
from signals.events import MICROS

COPIES = 3
SHORTER = 9


@cache
def hour() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """When each request came, in seconds, and its tokens. Raises Unavailable without the trace."""
    rows = traces.lines("azure_llm_2023", "AzureLLMInferenceTrace_conv.csv")
    found = conversations(rows, always(LIVE_KIND))
    at_s, tokens = zip(*((one.arrival_s, one.output_tokens) for one in found), strict=True)
    return np.array(at_s), np.array(tokens)


def replayed(rate_per_s: float, seed: int) -> Iterator[Request]:
    """Chats without end, by arrival: the hour again and again."""
    rng = np.random.default_rng([seed, 3])
    at_s, tokens = hour()
    length_s = at_s[-1] + 1.0
    kept = rate_per_s * length_s / (COPIES * len(at_s))
    starts = rng.uniform(0.0, length_s, COPIES)
    laid_s = ((at_s - starts[:, None]) % length_s).ravel()
    sizes = np.clip(np.rint(np.tile(tokens, COPIES) / SHORTER), 2, LIVE_TOKENS[1])
    order = np.lexsort((np.tile(tokens, COPIES), laid_s))
    laid_s, sizes = laid_s[order], sizes[order].astype(int)
    for turn in itertools.count():
        stays = rng.random(len(laid_s)) < kept
        arrivals_us = np.rint((turn * length_s + laid_s[stays]) * MICROS).astype(int)
        for arrival_us, size in zip(arrivals_us.tolist(), sizes[stays].tolist(), strict=True):
            yield Request(LIVE, size, arrival_us)

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

from benchmarks import traces
from benchmarks.queue_model import LIVE, LIVE_TOKENS, Request
from engine.simulated.arrivals.azure import conversations
from engine.simulated.arrivals.kinds import LIVE as LIVE_KIND
from engine.simulated.arrivals.kinds import always
from signals.events import MICROS

COPIES = 3
SHORTER = 9


@cache
def hour() -> tuple[tuple[float, int], ...]:
    """When each request came, in seconds, and its tokens. Raises Unavailable without the trace."""
    rows = traces.lines("azure_llm_2023", "AzureLLMInferenceTrace_conv.csv")
    found = conversations(rows, always(LIVE_KIND))
    return tuple((one.arrival_s, one.output_tokens) for one in found)


def replayed(rate_per_s: float, seed: int) -> Iterator[Request]:
    """Chats without end, by arrival: the hour again and again."""
    rng = np.random.default_rng([seed, 3])
    rows = hour()
    length_s = rows[-1][0] + 1.0
    kept = rate_per_s * length_s / (COPIES * len(rows))
    starts = rng.uniform(0.0, length_s, COPIES)
    laid = sorted(((at_s - start) % length_s, tokens) for start in starts for at_s, tokens in rows)
    for turn in itertools.count():
        coins = rng.random(len(laid)) < kept
        for (at_s, tokens), stays in zip(laid, coins, strict=True):
            if stays:
                size = min(max(round(tokens / SHORTER), 2), LIVE_TOKENS[1])
                yield Request(LIVE, size, round((turn * length_s + at_s) * MICROS))

"""What arrives at a simulated engine. Pure values, made by processes or read from traces."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from engine.generation import Class


class Offered(Struct, frozen=True, kw_only=True):
    """One request that will arrive, whatever the engine does: exogenous.

    ``output_tokens`` is how many it would get if nobody stopped it. ``prefix``: hashes of its
    leading prompt blocks of ``prefix_tokens`` tokens each, for prefix caches; empty: none shared.
    ``session``: the conversation it belongs to, for routers and splits.
    """

    arrival_s: float
    intent: str
    class_: Class
    prompt_tokens: int
    output_tokens: int
    prefix: tuple[int, ...] = ()
    prefix_tokens: int = 512
    session: str | None = None


Arrivals = Iterator[Offered]
"""By arrival, rising; it may never end."""

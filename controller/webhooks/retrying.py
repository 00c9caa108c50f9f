"""What becomes of a delivery after an attempt: done, tried again later, or given up. Pure.

The pause doubles from ``backoff_s`` to ``backoff_max_s``, and chance takes up to half of it away,
so that what failed together does not come back together.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from controller.store.past_port import Delivery
from controller.webhooks.settings import WebhookSettings
from signals.events import MICROS


class Attempt(Struct, frozen=True, kw_only=True):
    """One post. ``error`` None: it was taken. ``final``: trying again is of no use.

    ``retry_after_s``: what the receiver asked for.
    """

    delivery: Delivery
    error: str | None = None
    final: bool = False
    retry_after_s: float = 0.0


def after(attempt: Attempt, settings: WebhookSettings, *, now_us: int, chance: float) -> Delivery:
    """The delivery as it stands now. ``chance`` in [0, 1)."""
    before = attempt.delivery
    tried = replace(before, attempts=before.attempts + 1, error=attempt.error, due_us=now_us)
    if attempt.error is None:
        return replace(tried, state="delivered")
    wait_s = max(pause_s(tried.attempts, settings, chance=chance), attempt.retry_after_s)
    due_us = now_us + round(min(wait_s, settings.backoff_max_s) * MICROS)
    too_old = due_us > before.created_us + settings.max_age_s * MICROS
    if attempt.final or too_old or tried.attempts >= settings.attempts:
        return replace(tried, state="given_up")
    return replace(tried, due_us=due_us)


def pause_s(attempts: int, settings: WebhookSettings, *, chance: float) -> float:
    """Before the next attempt, when so many were in vain.

    >>> [pause_s(n, WebhookSettings(), chance=0.0) for n in (1, 2, 3, 40)]
    [5.0, 10.0, 20.0, 28800.0]
    """
    longest = settings.backoff_max_s
    doubled = settings.backoff_s * 2.0 ** min(attempts - 1, 32)
    return min(longest, doubled) * (1.0 - chance / 2)

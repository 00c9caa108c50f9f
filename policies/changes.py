"""Declared changes: what people and pipelines do to a target beside Trimtab.

A deploy, a scaling, a gateway's new route, an incident: each moves the figures by itself, so no
trial starts while one is open, and a running one is suspended until ``settle_s`` after its end.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

ChangeKind = Literal["deploy", "scale", "gateway", "incident", "other"]


class DeclaredChange(Struct, frozen=True, kw_only=True):
    """One declared change. ``until_us`` None: open, until somebody ends it."""

    id: str
    target: str
    kind: ChangeKind
    words: str
    by: str
    from_us: int
    until_us: int | None = None

    def suspends(self, now_us: int, *, settle_us: int = 0) -> bool:
        """Whether trials wait for it now; one that was called off before it began never does."""
        if self.until_us is not None and self.until_us <= self.from_us:
            return False
        ends_us = None if self.until_us is None else self.until_us + settle_us
        return self.from_us <= now_us and (ends_us is None or now_us < ends_us)

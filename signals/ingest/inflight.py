"""How many bytes of posts are in hand, and the bound on them.

>>> inflight = Inflight(limit=100)
>>> with inflight.share() as one, inflight.share() as other:
...     one.grow(80)
...     other.grow(21)
Traceback (most recent call last):
signals.errors.Unavailable: 80 of 100 bytes are in hand
>>> inflight.bytes
0
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from signals.errors import Unavailable


class Inflight:
    """Bytes that posts hold from their first chunk until their answer is sent. One thread's."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0

    def share(self) -> Share:
        """A post's part, of nothing yet."""
        return Share(self)


class Share:
    """What one post holds; given back when the ``with`` block ends."""

    __slots__ = ("_bytes", "_inflight")

    def __init__(self, inflight: Inflight) -> None:
        self._inflight = inflight
        self._bytes = 0

    def grow(self, to: int) -> None:
        """Hold ``to`` bytes if that is more than now. Raises ``Unavailable`` beyond the bound."""
        more = to - self._bytes
        if more <= 0:
            return
        inflight = self._inflight
        if inflight.bytes + more > inflight.limit:
            raise Unavailable(f"{inflight.bytes} of {inflight.limit} bytes are in hand")
        inflight.bytes += more
        self._bytes = to

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._inflight.bytes -= self._bytes
        self._bytes = 0

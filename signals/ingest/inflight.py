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
from typing import Final, Self

from signals.errors import Unavailable
from signals.settings import IngestSettings

_OF_A_BYTE: Final = 4
"""What a byte of a post in hand costs: itself, as an event, and as a message for the bus."""

_OF_A_JUDGED_BYTE: Final = 30
"""What a byte of the post being judged costs at worst: an array of two million zeros."""

_CONNECTION_BYTES: Final = 393_216
"""One read of the event loop and what is kept of a body before its sender is paused."""

_ID_BYTES: Final = 200


def memory_bound_bytes(settings: IngestSettings) -> int:
    """What the process may hold beyond an idle one's memory, whatever is offered.

    >>> memory_bound_bytes(IngestSettings()) // 2**20
    341
    """
    return (
        _OF_A_BYTE * settings.max_inflight_bytes
        + _OF_A_JUDGED_BYTE * settings.max_body_bytes
        + 2 * settings.max_connections * _CONNECTION_BYTES
        + 2 * settings.recent_ids * _ID_BYTES
    )


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

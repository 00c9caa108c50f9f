"""HTTP connections with bounds that uvicorn leaves open: how many, and how long silent."""

from __future__ import annotations

import asyncio
import re
from typing import ClassVar, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from signals.ingest.answering import ABORT
from signals.settings import IngestSettings

HEADERS_S = 10.0
"""A client that has not sent all of its headers by then is let go."""

_OFFER: Final = re.compile(rb"\r\nupgrade:[^\r\n]*", re.IGNORECASE)

SURPLUS: Final = "trimtab.surplus"
"""In the ``state`` of a request's scope: whether its connection has no place."""


class BoundedHttp(HttpToolsProtocol):
    """One connection.

    The first ``max_connections`` have a place for as long as they are open, so that a crowd takes
    nothing from those who came before it. The others are answered, even if only with 503 (the
    application's business), until a place is free; beyond twice as many a connection is closed at
    once, so that their buffers are bounded, too.
    """

    max_connections: ClassVar[int] = IngestSettings().max_connections
    _headers_due: asyncio.TimerHandle | None = None
    _placed = False
    _between_requests = True

    def connection_made(  # type: ignore[override]
        self, transport: asyncio.Transport
    ) -> None:
        """See ``asyncio.Protocol``."""
        super().connection_made(transport)
        if len(self.connections) > 2 * self.max_connections:
            transport.abort()
            return
        self._take_a_place()
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def connection_lost(self, exc: Exception | None) -> None:
        """See ``asyncio.Protocol``."""
        self._headers_are_there()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See ``asyncio.Protocol``.

        A client may offer to upgrade (some do so by default, to HTTP/2), and a server may go on as
        if it had not (RFC 9110, section 7.8). The parser can't: it would take the post for empty
        and its body for the next request. So the offer is not shown to it.
        """
        if self._between_requests:
            data = _without_offer(data)
        super().data_received(data)

    def _unsupported_upgrade_warning(self) -> None:
        """An offer that was not seen in time. What follows the headers is not to be trusted."""
        super()._unsupported_upgrade_warning()
        self.cycle.keep_alive = False

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        super().on_message_begin()
        self._between_requests = False
        if not self._placed:
            self._take_a_place()
        self.scope["state"][SURPLUS] = not self._placed
        self.scope["state"][ABORT] = self.transport.abort
        self._headers_due = self.loop.call_later(HEADERS_S, self.timeout_keep_alive_handler)

    def on_headers_complete(self) -> None:
        """The request can be answered; its body is the application's to bound."""
        self._headers_are_there()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """All of its body is there."""
        super().on_message_complete()
        self._between_requests = True

    def _take_a_place(self) -> None:
        """If there is one. Only those without one ask, so the count is not kept."""
        placed = sum(isinstance(one, BoundedHttp) and one._placed for one in self.connections)
        self._placed = placed < self.max_connections

    def _headers_are_there(self) -> None:
        if self._headers_due is not None:
            self._headers_due.cancel()
            self._headers_due = None


def _without_offer(data: bytes) -> bytes:
    end = data.find(b"\r\n\r\n")
    offer = _OFFER.search(data, 0, end) if end > 0 else None
    return data[: offer.start()] + data[offer.end() :] if offer else data


def bounded_http(max_connections: int) -> type[BoundedHttp]:
    """The protocol with this many places."""
    return type("Http", (BoundedHttp,), {"max_connections": max_connections})

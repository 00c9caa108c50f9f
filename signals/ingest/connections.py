"""HTTP connections with bounds that uvicorn leaves open: how many, and how long silent."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADERS_S = 10.0
"""A client that has not sent all of its headers by then is let go."""


class BoundedHttp(HttpToolsProtocol):
    """One connection.

    Up to ``limit_concurrency`` are answered, even if only with 503 (the application's business);
    beyond that a connection is closed at once, so that their buffers are bounded, too.
    """

    _headers_due: asyncio.TimerHandle | None = None

    def connection_made(  # type: ignore[override]
        self, transport: asyncio.Transport
    ) -> None:
        """See ``asyncio.Protocol``."""
        super().connection_made(transport)
        if self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency:
            transport.abort()
            return
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def connection_lost(self, exc: Exception | None) -> None:
        """See ``asyncio.Protocol``."""
        self._headers_are_there()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        super().on_message_begin()
        self._headers_due = self.loop.call_later(HEADERS_S, self.timeout_keep_alive_handler)

    def on_headers_complete(self) -> None:
        """The request can be answered; its body is the application's to bound."""
        self._headers_are_there()
        super().on_headers_complete()

    def _headers_are_there(self) -> None:
        if self._headers_due is not None:
            self._headers_due.cancel()
            self._headers_due = None

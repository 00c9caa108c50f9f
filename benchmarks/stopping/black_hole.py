"""Addresses that are no engine any more: one accepts and never answers, one refuses."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def black_hole() -> Iterator[str]:
    """Accepts connections, for the backlog is long, and says nothing for ever."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def refusing() -> str:
    """Nobody listens there."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    return f"http://127.0.0.1:{port}"

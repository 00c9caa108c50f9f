"""A port that nobody listens on now."""

from __future__ import annotations

import socket


def free_port() -> int:
    """It may be taken a moment later; whoever needs it binds soon."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])

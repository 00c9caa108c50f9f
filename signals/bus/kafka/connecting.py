"""A client of kafka-python, or nothing of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def connect(kind: Any, options: Mapping[str, Any]) -> Any:
    """``kind(**options)``: a producer, a consumer or an admin client.

    Where kafka-python 3.0.12 finds no broker it leaves the thread and the sockets of the client it
    was making; here they are closed. Raises what ``kind`` raises.
    """
    made: list[Any] = []
    network: Callable[..., Any] = kind.DEFAULT_CONFIG["kafka_client"]

    def kept(**config: Any) -> Any:
        made.append(network(**config))
        return made[-1]

    try:
        return kind(**options, kafka_client=kept)
    except BaseException:
        for client in made:
            client.close()
        raise

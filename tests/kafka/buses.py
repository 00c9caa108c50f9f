"""Settings of a bus that nobody else uses, and what tests post to it."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import psutil

from signals.bus.port import Message, partition_of
from signals.bus.settings import BusSettings, KafkaSettings

PARTITIONS = 3
_numbers = itertools.count()


def settings_for(port: int, *, queue_events: int = 20_000, **kafka: Any) -> BusSettings:
    """A new topic and a new group on the broker at this port.

    ``allow_single_copy``, for the broker of the tests keeps one copy and says nothing of it.
    """
    number = next(_numbers)
    chosen: dict[str, Any] = {
        "bootstrap": (f"127.0.0.1:{port}",),
        "topic": f"signals-{number}",
        "group": f"features-{number}",
        "partitions": PARTITIONS,
        "replication": 1,
        "allow_single_copy": True,
        "session_timeout_ms": 2000,
        "heartbeat_ms": 500,
        "request_timeout_ms": 5000,
        "fetch_wait_ms": 10,
    }
    return BusSettings(
        kind="kafka", kafka=KafkaSettings(**(chosen | kafka)), queue_events=queue_events
    )


def key_of(partition: int, partitions: int = PARTITIONS) -> str:
    """A target that lives there."""
    names = (f"t{number}" for number in itertools.count())
    return next(name for name in names if partition_of(name, partitions) == partition)


def message(number: int, *, key: str = "chat") -> Message:
    return Message(key=key, body=b"%d" % number, producer="shop", accepted_us=number)


def wait_until(ready: Callable[[], bool], *, within_s: float = 20.0) -> None:
    deadline_s = time.monotonic() + within_s
    while not ready():
        assert time.monotonic() < deadline_s, f"not within {within_s:g} s"
        time.sleep(0.02)


def freeze(pid: int) -> None:
    """SIGSTOP, and return when every thread of it stands."""
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)


def thaw(pid: int) -> None:
    """SIGCONT: it believes that no time has passed."""
    os.kill(pid, signal.SIGCONT)

"""Appends to a log until it is killed: ``python -m tests.signals.bus_victim FOLDER FIRST``.

The segments are as small as they may be, so that most of the time goes into rolling over. Each
acknowledged number is a line on the standard output, written after its future was resolved.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from concurrent.futures import Future
from itertools import count
from pathlib import Path

from signals.bus.port import Message
from signals.bus.settings import BusSettings
from signals.bus.sqlite import SqliteBus

SETTINGS = BusSettings(
    segment_bytes=65_536, max_bytes=2**40, hard_bytes=2**40, commit_ms=0, trim_every_s=0.05
)
OUTSTANDING = 4
EVENTS = 20
PADDING = b"x" * 300


def batch(first: int) -> list[Message]:
    return [
        Message(
            key=f"k{number % 2}",
            body=b'{"number":%d,"padding":"%b"}' % (number, PADDING),
            producer="victim",
            accepted_us=first,
        )
        for number in range(first, first + EVENTS)
    ]


def number_of(body: bytes) -> int:
    return int(body[10 : body.index(b",")])


def main(folder: Path, start: int) -> None:
    bus = SqliteBus(folder, SETTINGS)
    waiting: deque[tuple[int, Future[None]]] = deque()
    for first in count(start, EVENTS):
        waiting.append((first, bus.append(batch(first))))
        if len(waiting) == OUTSTANDING:
            acknowledged, future = waiting.popleft()
            future.result(10)
            os.write(1, b"%d\n" % acknowledged)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

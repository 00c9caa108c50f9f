"""Frames: how events lie in a row of the log, many to a row.

Events of one post share their producer and the time of their acceptance, and mostly their key: a
*run* says those once. The runs of one group commit make one *frame*, a row::

    first │ count │ heads: [[3,"chat","shop",1700…],[1,"code","shop",1700…]] │ bodies: a⏎b⏎c⏎d

so a group costs the log one insert, whatever it holds. Bodies are encoded JSON and have no raw
newline; one that has is given a frame of its own, which is never split. A run keeps the order of
its key; keys that alternate in a post come out one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter

import msgspec
from msgspec import Struct

from signals.bus.port import Entry, Message
from signals.errors import Broken

MAX_FRAME_BYTES = 1_048_576
"""A reader holds one frame in memory beside what it was asked for."""


class Head(Struct, frozen=True, array_like=True):
    """What the events of a run have in common, and how many they are."""

    count: int
    key: str
    producer: str
    accepted_us: int


class Run(Struct, frozen=True):
    """Events of one post, key, producer and time, in their order."""

    head: Head
    bodies: bytes
    """Joined by newlines; one event's own bytes, whatever they are, when ``alone``."""
    alone: bool = False


class Frame(Struct, frozen=True):
    """One row: events with the offsets ``first``, ``first + 1``, …"""

    first: int
    count: int
    heads: bytes
    bodies: bytes

    @property
    def row(self) -> tuple[int, int, bytes, bytes]:
        """In the order of the table's columns."""
        return self.first, self.count, self.heads, self.bodies


_BY_KEY = attrgetter("key")
_SHARED = attrgetter("key", "producer", "accepted_us")
_encoder = msgspec.json.Encoder()
_heads = msgspec.json.Decoder(list[Head])


def runs_of(batch: Sequence[Message]) -> list[Run]:
    """The runs of one post.

    >>> batch = [Message(key=key, body=b"1", producer="p", accepted_us=7) for key in "aba"]
    >>> [(run.head.count, run.head.key, run.bodies) for run in runs_of(batch)]
    [(2, 'a', b'1\\n1'), (1, 'b', b'1')]
    """
    found = []
    for shared, messages in groupby(sorted(batch, key=_BY_KEY), _SHARED):
        for bodies, alone in _cut([message.body for message in messages]):
            found.append(Run(Head(len(bodies), *shared), b"\n".join(bodies), alone))
    return found


def _cut(bodies: list[bytes]) -> Iterator[tuple[list[bytes], bool]]:
    """Lists that fit in a frame each, and whether the list is one body that may not be split."""
    joined = b"\n".join(bodies)
    if len(joined) <= MAX_FRAME_BYTES and joined.count(b"\n") == len(bodies) - 1:
        yield bodies, False
        return
    taken: list[bytes] = []
    size = 0
    for body in bodies:
        alone = b"\n" in body
        if taken and (alone or size + len(body) > MAX_FRAME_BYTES):
            yield taken, False
            taken, size = [], 0
        if alone:
            yield [body], True
        else:
            taken.append(body)
            size += len(body) + 1
    if taken:
        yield taken, False


def frames_of(runs: Iterable[Run], first: int) -> list[Frame]:
    """The frames of one group commit, its first event at offset ``first``."""
    frames: list[Frame] = []
    taken: list[Run] = []
    size = 0
    for run in runs:
        fits = size + len(run.bodies) <= MAX_FRAME_BYTES
        if taken and (run.alone or taken[-1].alone or not fits):
            frames.append(_frame(taken, first))
            first += frames[-1].count
            taken, size = [], 0
        taken.append(run)
        size += len(run.bodies) + 1
    if taken:
        frames.append(_frame(taken, first))
    return frames


def _frame(runs: list[Run], first: int) -> Frame:
    return Frame(
        first=first,
        count=sum(run.head.count for run in runs),
        heads=_encoder.encode([run.head for run in runs]),
        bodies=b"\n".join([run.bodies for run in runs]),
    )


def entries_of(frame: Frame) -> list[Entry]:
    """The events of a frame. Raises ``Broken`` when it does not hold what it says."""
    bodies = frame.bodies.split(b"\n") if frame.count > 1 else [frame.bodies]
    heads = _decoded(frame.heads)
    if len(bodies) != frame.count or sum(head.count for head in heads) != frame.count:
        raise Broken(f"the frame at {frame.first} does not hold {frame.count} events")
    entries, at = list[Entry](), 0
    for head in heads:
        key, producer, accepted_us = head.key, head.producer, head.accepted_us
        entries += [
            Entry(offset=offset, key=key, body=body, producer=producer, accepted_us=accepted_us)
            for offset, body in enumerate(bodies[at : at + head.count], frame.first + at)
        ]
        at += head.count
    return entries


def accepted_us(heads: bytes) -> int:
    """When the first event of a frame was accepted. Raises ``Broken``."""
    return _decoded(heads)[0].accepted_us


def _decoded(heads: bytes) -> list[Head]:
    try:
        return _heads.decode(heads)
    except msgspec.DecodeError as error:
        raise Broken(f"a frame cannot be read: {error}") from error

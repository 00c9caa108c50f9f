"""Events of a file of any size, posted in parts that the signals API takes.

Lines of NDJSON are read as they are needed, so a file of any size costs the memory of one part. A
post that was not answered, or answered 503, is made again: events carry ids, and what arrives twice
counts once. For the same reason a file whose posting broke off is simply posted again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import BinaryIO, Final

import msgspec
from msgspec import Struct
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    stop_after_delay,
    wait_random,
)
from tenacity.wait import wait_base

from controller.cli.client import Client
from signals.codec import CLOUD_EVENT_BATCH, JSON, NDJSON
from signals.errors import Rejected, Unavailable

MAX_DOCUMENT_BYTES: Final = 67_108_864
"""Of JSON that is not line by line; more is asked for as NDJSON."""
MAX_LISTED: Final = 10_000
"""Refused events that are remembered by number; beyond it they are only counted."""
MAX_WAIT_S: Final = 30.0
JITTER_S: Final = 0.25

_raw_items = msgspec.json.Decoder(list[msgspec.Raw])


class Document(Struct, frozen=True):
    """One event's JSON. ``number``: its line, or its place in the array, from 1."""

    number: int
    body: bytes
    media: str


class Part(Struct, frozen=True):
    """One post: a body, its content type, and the numbers of the events in it."""

    body: bytes
    media: str
    numbers: tuple[int, ...]


class Refusal(Struct, frozen=True, kw_only=True):
    """An event that was not taken, and why."""

    number: int
    id: str | None
    reason: str
    field: str | None = None
    allowed: object = None


class Summary(Struct, kw_only=True):
    """What became of a file."""

    posts: int = 0
    accepted: int = 0
    duplicates: int = 0
    refused: int = 0
    refusals: list[Refusal] = []


def documents(source: BinaryIO) -> Iterator[Document]:
    """The events of a file: lines of NDJSON as they come, or one JSON value or array.

    A line that is no JSON stays one of them, for ingest to refuse by itself. Raises ``Rejected``
    for an array that is broken or too large.
    """
    lines = enumerate(source, 1)
    first = next(((number, line) for number, line in lines if line.strip()), None)
    if first is None:
        raise Rejected("there is no event in it")
    if _is_object(first[1]):
        for number, line in chain([first], lines):
            if line.strip():
                cloud = b'"specversion"' in line and _is_object(line)
                yield Document(number, line.strip(), CLOUD_EVENT_BATCH if cloud else NDJSON[0])
        return
    rest = source.read(MAX_DOCUMENT_BYTES)
    if len(rest) == MAX_DOCUMENT_BYTES:
        raise Rejected("this much JSON is posted as NDJSON, one event a line")
    whole = first[1] + rest
    for number, item in enumerate(_items(whole), 1):
        cloud = b'"specversion"' in item
        yield Document(number, item, CLOUD_EVENT_BATCH if cloud else JSON)


def parts(found: Iterable[Document], *, max_bytes: int, max_events: int) -> Iterator[Part]:
    """Posts of at most so many events and bytes, in order. A larger event goes alone.

    >>> lines = [Document(n, b'{"id": "%d"}' % n, NDJSON[0]) for n in (1, 2, 3)]
    >>> [part.numbers for part in parts(lines, max_bytes=1000, max_events=2)]
    [(1, 2), (3,)]
    """
    waiting: list[Document] = []
    size = 0
    for one in found:
        full = len(waiting) == max_events or size + len(one.body) + 3 > max_bytes
        if waiting and (full or one.media != waiting[0].media):
            yield _part(waiting)
            waiting, size = [], 0
        waiting.append(one)
        size += len(one.body) + 1
    if waiting:
        yield _part(waiting)


def post_all(
    client: Client, found: Iterable[Part], *, retry_s: float, told: Callable[[Part], None]
) -> Summary:
    """Post every part, in order; ``told`` after each one.

    What answers 503 or 429, or not at all, is asked again for ``retry_s`` seconds, each time after
    as long as it asked for. Raises ``Unavailable`` when that was not enough; what was accepted
    stays so.
    """
    retrying = Retrying(
        retry=retry_if_exception_type(Unavailable),
        wait=_AsAsked() + wait_random(0, JITTER_S),
        stop=stop_after_delay(retry_s),
        reraise=True,
    )
    summary = Summary()
    for part in found:
        try:
            _add(summary, part, retrying(_post, client, part))
        except Unavailable as error:
            raise Unavailable(
                f"{error.detail}; {summary.accepted} events before number {part.numbers[0]} were"
                " accepted: post the same again, what is there already counts once"
            ) from error
        told(part)
    return summary


class _AsAsked(wait_base):
    """Wait as long as the answer's ``Retry-After`` said, within a bound."""

    def __call__(self, retry_state: RetryCallState) -> float:
        failed = retry_state.outcome.exception() if retry_state.outcome is not None else None
        asked_s = failed.retry_after_s if isinstance(failed, Unavailable) else 1.0
        return min(MAX_WAIT_S, asked_s)


def _post(client: Client, part: Part) -> dict[str, object]:
    found: dict[str, object] = client.post(
        "/v1/signals", part.body, content_type=part.media, partly=True
    )
    return found


def _add(summary: Summary, part: Part, answer: dict[str, object]) -> None:
    refused = msgspec.convert(answer["refused"], list[dict[str, object]])
    summary.posts += 1
    summary.accepted += msgspec.convert(answer["accepted"], int)
    summary.duplicates += msgspec.convert(answer["duplicates"], int)
    summary.refused += len(refused)
    for one in refused[: MAX_LISTED - len(summary.refusals)]:
        number = part.numbers[msgspec.convert(one["index"], int)]
        known = {name: one.get(name) for name in ("id", "reason", "field", "allowed")}
        summary.refusals.append(msgspec.convert({"number": number, **known}, Refusal))


def _part(gathered: list[Document]) -> Part:
    bodies = [one.body for one in gathered]
    media = gathered[0].media
    body = b"\n".join(bodies) if media == NDJSON[0] else b"[" + b",".join(bodies) + b"]"
    return Part(body, media, tuple(one.number for one in gathered))


def _items(whole: bytes) -> list[bytes]:
    try:
        if whole.lstrip()[:1] == b"[":
            return [bytes(item) for item in _raw_items.decode(whole)]
        return [bytes(msgspec.json.decode(whole, type=msgspec.Raw))]
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Rejected(f"it is neither JSON nor NDJSON: {error}") from error


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(line), dict)
    except (msgspec.MsgspecError, RecursionError):
        return False

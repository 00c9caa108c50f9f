"""Bodies of posts, encoded once and made unique by patching a number in.

A benchmark's client must cost next to nothing beside the server, or it measures itself: a post of
500 events is one ``bytes.replace``.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import msgspec

from signals.events import MICROS
from signals.ids import RANDOM_BYTES, uuid7

EVENT_BYTES = 300
MARK = b"@@@@@@@@"
"""Stands for the number of the post in every id and request id; event ids are
``evt-<post>-<place>-<padding>``."""


def event_id_parts(event_id: str) -> tuple[int, int]:
    """The post and the place in it that an id of ours says.

    >>> event_id_parts("evt-00000012-003-xxxx")
    (12, 3)
    """
    _, post, place, _ = event_id.split("-", 3)
    return int(post), int(place)


def business(count: int, *, targets: Sequence[str], now_us: int, seed: int) -> bytes:
    """NDJSON of ``count`` business events of exactly 300 bytes each, with ``MARK`` in every id.

    Each names a request of its own, which nobody ever saw.
    """
    rng = Random(seed)
    lines = []
    for place in range(count):
        target = targets[place % len(targets)]
        lines.append(_line(place, made_up(target, now_us, rng), now_us, rng))
    return b"\n".join(lines)


def made_up(target: str, now_us: int, rng: Random) -> str:
    """A request id as that target's engine would mint it, with ``MARK`` for its last digits."""
    return f"{target}.{uuid7(now_us, rng.randbytes(RANDOM_BYTES))[: -len(MARK)]}{MARK.decode()}"


def numbered(body: bytes, number: int) -> bytes:
    """The body of one post: every id in it is new."""
    return body.replace(MARK, b"%08d" % number)


def as_request(body: bytes, *, host: str, key: str, media: str) -> bytes:
    """The whole HTTP/1.1 request, still with its marks."""
    head = (
        "POST /v1/signals HTTP/1.1\r\n"
        f"Host: {host}\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: {media}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def rfc3339(us: int) -> str:
    """A moment as business systems write it."""
    moment = datetime.fromtimestamp(us // MICROS, UTC) + timedelta(microseconds=us % MICROS)
    return moment.isoformat()


def _line(place: int, request_id: str, now_us: int, rng: Random) -> bytes:
    event: dict[str, Any] = {
        "id": f"evt-{MARK.decode()}-{place:03}-",
        "kind": "business",
        "name": "thumbs",
        "time": rfc3339(now_us - rng.randrange(MICROS)),
        "value": round(rng.uniform(-1, 1), 3),
        "request_id": request_id,
    }
    missing = EVENT_BYTES - len(msgspec.json.encode(event))
    event["id"] += "x" * missing
    return msgspec.json.encode(event)

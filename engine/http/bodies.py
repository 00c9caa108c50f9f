"""What both listeners do with a request before they understand it: its key, its size."""

from __future__ import annotations

import hashlib
import hmac

from fastapi import Request
from starlette.requests import ClientDisconnect

from signals.errors import Denied, Rejected


class TooLarge(Rejected):
    """A body beyond the bound; none of it was looked at."""

    status = 413


class BearerKey:
    """Checks ``Authorization: Bearer`` against one key, in time that tells nothing about it.

    Only the key's hash is kept.
    """

    def __init__(self, key: str) -> None:
        self._digest = _digest(key)

    def check(self, request: Request) -> None:
        """Raise ``Denied`` (401) unless the request carries the key."""
        scheme, _, presented = request.headers.get("authorization", "").partition(" ")
        known = hmac.compare_digest(_digest(presented), self._digest)
        if scheme.lower() != "bearer" or not known:
            raise Denied("a valid bearer key is needed", authenticated=False)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


async def read_bounded(request: Request, max_bytes: int) -> bytes:
    """The whole body. Raises ``TooLarge`` as soon as it is longer than ``max_bytes``.

    Raises ``Rejected`` where the caller went away in the middle of it: nobody hears that.
    """
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > max_bytes:
                raise TooLarge("the body is too large", field="body", allowed=f"{max_bytes} bytes")
    except ClientDisconnect:
        raise Rejected("the caller went away before the body was there", field="body") from None
    return bytes(body)

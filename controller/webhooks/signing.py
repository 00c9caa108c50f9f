"""Signatures of webhooks, by the Standard Webhooks convention. Pure.

The signed content is ``id.timestamp.body``, the signature HMAC-SHA256 under the secret's bytes; the
header ``webhook-signature`` holds ``v1,<base64>`` for each valid secret, separated by spaces, so
that a receiver who knows either of two takes it. Reference: standardwebhooks.com, specification
1.0.0, "Signature scheme".

>>> secret = parse_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
>>> headers = sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}', [secret])
>>> headers["webhook-signature"]
'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
>>> verify(headers, b'{"test": 2432232314}', [secret], now_s=1614265331)
>>> verify(headers, b'{"test": 2}', [secret], now_s=1614265331)
Traceback (most recent call last):
signals.errors.Rejected: no signature fits
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Final

from signals.errors import Rejected

PREFIX: Final = "whsec_"
VERSION: Final = "v1"
MIN_BYTES: Final = 24
MAX_BYTES: Final = 64
MAX_SECRETS: Final = 2
"""The one in use, and the one that is rotated out."""
TOLERANCE_S: Final = 300
"""Older or newer than that is refused: a body that was seen once can't be sent again later."""


def new_secret(random: bytes) -> str:
    """A secret as files and receivers have it. ``random``: ``MIN_BYTES`` at least."""
    return PREFIX + base64.b64encode(random).decode()


def parse_secret(text: str) -> bytes:
    """The secret's bytes. Raises ``Rejected``, without what was given."""
    try:
        secret = base64.b64decode(text.strip().removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError) as error:
        raise Rejected("not a webhook secret", allowed=f"{PREFIX}<base64>") from error
    if not MIN_BYTES <= len(secret) <= MAX_BYTES:
        raise Rejected(
            "a webhook secret of the wrong length", allowed=f"{MIN_BYTES}..{MAX_BYTES} bytes"
        )
    return secret


def parse_secrets(text: str) -> tuple[bytes, ...]:
    """The secrets of a file, a line each, newest first. Raises ``Rejected``."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not 1 <= len(lines) <= MAX_SECRETS:
        raise Rejected(
            f"{len(lines)} webhook secrets in one file", allowed=f"1..{MAX_SECRETS}, one a line"
        )
    return tuple(parse_secret(line) for line in lines)


def sign(id_: str, timestamp_s: int, body: bytes, secrets: Sequence[bytes]) -> dict[str, str]:
    """The three headers, with one signature a secret."""
    return {
        "webhook-id": id_,
        "webhook-timestamp": str(timestamp_s),
        "webhook-signature": " ".join(
            f"{VERSION},{_mac(id_, str(timestamp_s), body, secret)}" for secret in secrets
        ),
    }


def verify(
    headers: Mapping[str, str],
    body: bytes,
    secrets: Sequence[bytes],
    *,
    now_s: float,
    tolerance_s: float = TOLERANCE_S,
) -> None:
    """Raise ``Rejected`` unless one of the signatures is right and its time is near.

    ``headers`` by lower-case name.
    """
    id_, timestamp, given = (_header(headers, name) for name in ("id", "timestamp", "signature"))
    if not timestamp.isascii() or not timestamp.isdigit() or len(timestamp) > 12:
        raise Rejected("not a time", field="webhook-timestamp", allowed="Unix seconds")
    if abs(now_s - int(timestamp)) > tolerance_s:
        raise Rejected(
            "the time is too far from now",
            field="webhook-timestamp",
            value=timestamp,
            allowed=f"within {tolerance_s:g} s",
        )
    known = [_mac(id_, timestamp, body, secret) for secret in secrets]
    for part in given.split():
        version, _, mac = part.partition(",")
        if version == VERSION and any(
            hmac.compare_digest(mac.encode(), one.encode()) for one in known
        ):
            return
    raise Rejected("no signature fits", field="webhook-signature")


def _header(headers: Mapping[str, str], name: str) -> str:
    found = headers.get(f"webhook-{name}")
    if not found:
        raise Rejected("the header is missing", field=f"webhook-{name}")
    return found


def _mac(id_: str, timestamp: str, body: bytes, secret: bytes) -> str:
    signed = f"{id_}.{timestamp}.".encode() + body
    return base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode()

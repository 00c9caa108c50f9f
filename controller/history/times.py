"""Times and spans as people write them: RFC 3339, microseconds, ``30m``.

>>> moment("now", now_us=7), moment("1s", now_us=3_000_000)
(7, 2000000)
>>> moment("1970-01-01T00:00:01Z"), moment("1000000"), moment("1970-01-01T01:00:01+01:00")
(1000000, 1000000, 1000000)
>>> span("30m"), span("1h30m"), span("7d")
(1800000000, 5400000000, 604800000000)
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from signals.errors import Rejected
from signals.events import MICROS

UNITS_S: Final = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
SPAN: Final = re.compile(r"(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,8})s)?")
LATEST_US: Final = 2**53 - 1
MOMENTS: Final = "RFC 3339 with a zone, e.g. 2026-11-24T03:00Z, or µs since 1970"
OR_AGO: Final = f"now, 30m (ago), {MOMENTS}"
SPANS: Final = "e.g. 30m, 2h, 1h30m, 7d"


def moment(text: str, *, field: str = "at", now_us: int | None = None) -> int:
    """µs since 1970. Raises ``Rejected``. With ``now_us`` also ``now``, and a span: so long ago."""
    if now_us is not None and text == "now":
        return now_us
    if now_us is not None and text and SPAN.fullmatch(text):
        return max(0, now_us - span(text, field=field))
    plain = text.isascii() and text.isdigit()
    allowed = MOMENTS if now_us is None else OR_AGO
    at_us = int(text[:20]) if plain else _parsed(text, field, allowed)
    if not 0 <= at_us <= LATEST_US:
        raise _refused(text, field, allowed)
    return at_us


def span(text: str, *, field: str = "since") -> int:
    """µs. Raises ``Rejected``."""
    found = SPAN.fullmatch(text)
    if not text or found is None:
        raise _refused(text, field, SPANS)
    amounts = zip(found.groups(), UNITS_S.values(), strict=True)
    span_us = MICROS * sum(int(amount) * unit_s for amount, unit_s in amounts if amount)
    if span_us == 0:
        raise _refused(text, field, SPANS)
    return span_us


def rfc3339(at_us: int) -> str:
    """UTC, to the microsecond.

    >>> rfc3339(1_500_000)
    '1970-01-01T00:00:01.500000Z'
    """
    seconds, micros = divmod(at_us, MICROS)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{micros:06d}Z"


def _parsed(text: str, field: str, allowed: str) -> int:
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError as error:
        raise _refused(text, field, allowed) from error
    if parsed.tzinfo is None:
        raise _refused(text, field, allowed)
    since = parsed - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * MICROS + since.microseconds


def _refused(text: str, field: str, allowed: str) -> Rejected:
    return Rejected(
        f"{text[:50]!r} is no {'span' if allowed is SPANS else 'time'}",
        field=field,
        value=text[:50],
        allowed=allowed,
    )

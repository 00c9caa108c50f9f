"""What events are judged by, and the checks that every kind of event shares."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import Struct

from signals.definitions import Definition
from signals.errors import Denied, Rejected
from signals.events import MICROS
from signals.ingest.keys import Producer
from signals.pseudonyms import Pseudonyms
from signals.settings import IngestSettings

MAX_ID: Final = 200
ID_RULE: Final = f"1 to {MAX_ID} visible ASCII characters"
REQUEST_ID_RULE: Final = "<target>.<uuid7>"
MAX_LISTED: Final = 20
"""Of the names that a refusal gives as allowed."""

match_id = re.compile(rf"[\x21-\x7e]{{1,{MAX_ID}}}").fullmatch
"""None for a caller's own id that does not keep to ``ID_RULE``."""

_REQUEST_ID = re.compile(
    r"([a-z][a-z0-9_]{0,62})\."
    r"[0-9a-f]{8}-?[0-9a-f]{4}-?7[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}"
).fullmatch
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Rules(Struct, frozen=True, kw_only=True):
    """What one post is judged by: who posts, what is declared, and the time it is.

    ``pseudonyms``: what takes the place of session and external ids; None: they stay as they are.
    """

    producer: Producer
    definitions: Mapping[str, Definition]
    targets: Collection[str]
    settings: IngestSettings
    now_us: int
    max_event_bytes: int = 1_048_576
    """Of one event as the bus carries it."""
    pseudonyms: Pseudonyms | None = None


def check_id(id_: str, field: str) -> None:
    """Raises ``Rejected`` for an id that does not keep to ``ID_RULE``."""
    if match_id(id_) is None:
        raise Rejected("the id is not usable", field=field, allowed=ID_RULE)


def target_of_request(request_id: str) -> str | None:
    """The target in an engine-minted id ``<target>.<uuid7>``; None when it is not one."""
    match = _REQUEST_ID(request_id)
    return match[1] if match else None


def allow(kind: str, name: str, target: str, rules: Rules) -> None:
    """Raises ``Rejected`` for an unknown target, ``Denied`` for what the key does not cover."""
    if target not in rules.targets:
        raise Rejected(
            "no such target",
            field="target",
            value=target[:MAX_ID],
            allowed=sorted(rules.targets)[:MAX_LISTED],
        )
    field = rules.producer.may_not(kind=kind, target=target, name=name)
    if field is not None:
        raise Denied(f"the key does not allow this {field}", field=field)


def time_us(time: datetime | None) -> int:
    """Microseconds since the epoch of a posted time. Raises ``Rejected``."""
    if time is None:
        raise Rejected("a time is required", field="time", allowed="RFC 3339 with an offset")
    if time.tzinfo is None:
        raise Rejected(
            "a time needs its offset", field="time", value=time.isoformat(), allowed="RFC 3339"
        )
    return (time - _EPOCH) // _MICROSECOND


def in_time(time_us: int, rules: Rules, *, field: str = "time") -> int:
    """The time again, if it is near enough to now. Raises ``Rejected``."""
    settings = rules.settings
    earliest_us = rules.now_us - settings.horizon_s * MICROS
    latest_us = rules.now_us + settings.skew_s * MICROS
    if not earliest_us <= time_us <= latest_us:
        raise Rejected(
            f"not within {settings.horizon_s} s before and {settings.skew_s} s after now",
            field=field,
            value=_rfc3339(time_us),
            allowed=[_rfc3339(earliest_us), _rfc3339(latest_us)],
        )
    return time_us


def _rfc3339(time_us: int) -> str | int:
    try:
        return datetime.fromtimestamp(time_us / MICROS, UTC).isoformat()
    except (OverflowError, ValueError, OSError):
        return time_us

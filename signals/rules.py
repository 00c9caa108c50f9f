"""What events are judged by, and the checks that every kind of event shares."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from signals.definitions import Definition
from signals.errors import Denied, Rejected
from signals.events import MICROS
from signals.ingest.keys import Producer
from signals.settings import IngestSettings
from signals.wire import Posted

MAX_ID: Final = 200
ID_RULE: Final = f"1 to {MAX_ID} visible ASCII characters"

_ID = re.compile(rf"[\x21-\x7e]{{1,{MAX_ID}}}").fullmatch
_REQUEST_ID = re.compile(
    r"([a-z][a-z0-9_]{0,62})\."
    r"[0-9a-f]{8}-?[0-9a-f]{4}-?7[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}"
).fullmatch


class Rules(Struct, frozen=True, kw_only=True):
    """What one post is judged by: who posts, what is declared, and the time it is."""

    producer: Producer
    definitions: Mapping[str, Definition]
    targets: Container[str]
    settings: IngestSettings
    now_us: int


def usable_id(id_: str) -> bool:
    """Whether a caller's own id keeps to ``ID_RULE``."""
    return _ID(id_) is not None


def target_of_request(request_id: str) -> str | None:
    """The target in an engine-minted id ``<target>.<uuid7>``; None when it is not one."""
    match = _REQUEST_ID(request_id)
    return match[1] if match else None


def allow(posted: Posted, target: str, rules: Rules) -> None:
    """Raises ``Rejected`` for an unknown target, ``Denied`` for what the key does not cover."""
    if target not in rules.targets:
        known = sorted(rules.targets) if isinstance(rules.targets, Iterable) else None
        raise Rejected("no such target", field="target", value=target[:MAX_ID], allowed=known)
    field = rules.producer.may_not(kind=posted.kind, target=target, name=posted.name)
    if field is not None:
        raise Denied(f"the key does not allow this {field}", field=field)


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

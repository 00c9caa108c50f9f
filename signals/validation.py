"""What an event must be like to be accepted; the rest is refused with field and what is allowed.

Cheap on purpose: an accepted event costs a few microseconds, because it is on ingest's hot path.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Container, Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache

from msgspec import Struct

from signals.errors import Denied, Rejected
from signals.events import MICROS, Arrived, Finished, Second, Signal
from signals.ingest.keys import Producer
from signals.records import RECORD_NAMES, event_time_us, record_id, record_name
from signals.settings import IngestSettings, MetricSettings
from signals.wire import Posted

MAX_ID = 200
MAX_INTENTS = 65
"""64 declared ones, and `default`."""
MAX_SECOND_S = 3600
NEAR = 3

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ID = re.compile(rf"[\x21-\x7e]{{1,{MAX_ID}}}").fullmatch
_ID_RULE = f"1 to {MAX_ID} visible ASCII characters"
_REQUEST_ID = re.compile(
    r"([a-z][a-z0-9_]{0,62})\."
    r"[0-9a-f]{8}-?[0-9a-f]{4}-?7[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}"
).fullmatch


class Rules(Struct, frozen=True, kw_only=True):
    """What one post is judged by: who posts, what is declared, and the time it is."""

    producer: Producer
    metrics: Mapping[str, MetricSettings]
    targets: Container[str]
    settings: IngestSettings
    now_us: int


def check(posted: Posted, rules: Rules) -> Signal:
    """The signal, ready for the bus. Raises ``Rejected``, or ``Denied`` when the key is narrower.

    >>> from signals.settings import IngestSettings, MetricSettings
    >>> rules = Rules(
    ...     producer=Producer(name="shop", kinds=frozenset({"business"})),
    ...     metrics={"copied": MetricSettings()}, targets={"chat"},
    ...     settings=IngestSettings(), now_us=1_700_000_000_000_000)
    >>> posted = Posted(id="1", kind="business", name="copied", value=True, target="chat",
    ...     external_id="order-7", time=datetime.fromtimestamp(1_700_000_000, UTC))
    >>> check(posted, rules).value
    1.0
    """
    if not _ID(posted.id):
        raise Rejected("the id is not usable", field="id", allowed=_ID_RULE)
    return _basic(posted, rules) if posted.kind == "basic" else _feedback(posted, rules)


def _feedback(posted: Posted, rules: Rules) -> Signal:
    """A business or semantic event."""
    if posted.data is not None:
        raise Rejected("only basic events carry data", field="data")
    metric = _metric(posted, rules.metrics)
    target = _target_of_feedback(posted)
    _allow(posted, target, rules)
    return Signal(
        id=posted.id,
        producer=rules.producer.name,
        kind=posted.kind,
        name=posted.name,
        target=target,
        time_us=_in_time(_time_us(posted.time), rules),
        value=_value(posted.value, metric),
        request_id=posted.request_id,
        external_id=posted.external_id,
    )


def _basic(posted: Posted, rules: Rules) -> Signal:
    """An engine's own event: its record says everything, and the rest must agree with it."""
    record = posted.data
    if record is None:
        raise Rejected("a basic event carries its record", field="data", allowed=RECORD_NAMES)
    stamp = record.stamp
    for field, given, said in (
        ("id", posted.id.rpartition("#")[2], record_id(record)),
        ("name", posted.name, record_name(record)),
        ("target", posted.target or stamp.target, stamp.target),
    ):
        if given != said:
            raise Rejected(f"the record says {said!r}", field=field, value=given, allowed=said)
    if posted.value is not None:
        raise Rejected("basic events carry a record, not a value", field="value")
    _allow(posted, stamp.target, rules)
    _record_fits(record, rules)
    return Signal(
        id=record_id(record),
        producer=rules.producer.name,
        kind="basic",
        name=posted.name,
        target=stamp.target,
        time_us=event_time_us(record),
        data=record,
    )


def _record_fits(record: object, rules: Rules) -> None:
    """Bounds that the record's types do not say."""
    if isinstance(record, Arrived | Finished):
        match = _REQUEST_ID(record.request_id)
        if not match or match[1] != record.stamp.target:
            allowed = f"{record.stamp.target}.<uuid7>"
            raise Rejected("not an id of this engine's", field="data.request_id", allowed=allowed)
        _in_time(record.arrival_us, rules, field="data.arrival_us")
        for name in ("external_id", "session_id"):
            value = getattr(record, name)
            if value is not None and not _ID(value):
                raise Rejected("the id is not usable", field=f"data.{name}", allowed=_ID_RULE)
    if isinstance(record, Finished):
        _in_time(record.finished_us, rules, field="data.finished_us")
        if record.finished_us < record.arrival_us:
            raise Rejected("finished before it arrived", field="data.finished_us")
    if isinstance(record, Second):
        _in_time(record.to_us, rules, field="data.to_us")
        if not 0 <= record.to_us - record.from_us <= MAX_SECOND_S * MICROS:
            raise Rejected("not a span", field="data.from_us", allowed=f"{MAX_SECOND_S} s at most")
        if len(record.intents) > MAX_INTENTS:
            raise Rejected("too many intents", field="data.intents", allowed=MAX_INTENTS)


def _metric(posted: Posted, metrics: Mapping[str, MetricSettings]) -> MetricSettings:
    metric = metrics.get(posted.name)
    if metric is None:
        near = _near(posted.name[:MAX_ID], tuple(metrics))
        raise Rejected(
            f"metric {posted.name[:MAX_ID]!r} is not declared",
            field="name",
            value=posted.name[:MAX_ID],
            allowed=near or sorted(metrics)[:20],
        )
    if metric.layer != posted.kind:
        raise Rejected(
            f"metric {posted.name!r} is a {metric.layer} metric",
            field="kind",
            value=posted.kind,
            allowed=metric.layer,
        )
    return metric


@lru_cache(maxsize=1024)
def _near(name: str, declared: tuple[str, ...]) -> list[str]:
    """Declared names like ``name``; remembered, for a typo comes with every event of a post."""
    return difflib.get_close_matches(name, declared, NEAR)


def _value(value: float | None, metric: MetricSettings) -> float:
    """The value as a number, when it is of the metric's type and within its bounds."""
    if value is None:
        raise Rejected("a value is required", field="value", allowed=metric.type)
    is_bool = isinstance(value, bool)
    fits = {
        "boolean": is_bool or value in (0, 1),
        "float": not is_bool,
        "count": not is_bool and value >= 0 and value == int(value),
        "duration": not is_bool and value >= 0,
    }[metric.type]
    if not fits:
        raise Rejected(f"not a {metric.type}", field="value", value=value, allowed=metric.type)
    if not metric.low <= value <= metric.high:
        raise Rejected(
            "out of the metric's bounds",
            field="value",
            value=value,
            allowed=[metric.low, metric.high],
        )
    return float(value)


def _target_of_feedback(posted: Posted) -> str:
    """The target, from the request id when there is one, else from ``target``."""
    if posted.session_id is not None:
        raise Rejected(
            "feedback about a session is not joined in this version",
            field="session_id",
            allowed=["request_id", "external_id"],
        )
    if (posted.request_id is None) == (posted.external_id is None):
        raise Rejected(
            "name the request by exactly one id",
            field="request_id",
            allowed=["request_id", "external_id"],
        )
    if posted.request_id is not None:
        return _target_of_request(posted.request_id, posted.target)
    if posted.external_id is None or not _ID(posted.external_id):
        raise Rejected("the id is not usable", field="external_id", allowed=_ID_RULE)
    if posted.target is None:
        raise Rejected("an external id needs the target it was sent to", field="target")
    return posted.target


def _target_of_request(request_id: str, target: str | None) -> str:
    match = _REQUEST_ID(request_id)
    if not match:
        raise Rejected(
            "not a request id",
            field="request_id",
            value=request_id[:MAX_ID],
            allowed="<target>.<uuid7>",
        )
    if target is not None and target != match[1]:
        raise Rejected(
            "the request id names another target", field="target", value=target, allowed=match[1]
        )
    return match[1]


def _allow(posted: Posted, target: str, rules: Rules) -> None:
    if target not in rules.targets:
        known = sorted(rules.targets) if isinstance(rules.targets, Iterable) else None
        raise Rejected("no such target", field="target", value=target[:MAX_ID], allowed=known)
    field = rules.producer.may_not(kind=posted.kind, target=target, name=posted.name)
    if field is not None:
        raise Denied(f"the key does not allow this {field}", field=field)


def _time_us(time: datetime | None) -> int:
    if time is None:
        raise Rejected("a time is required", field="time", allowed="RFC 3339 with an offset")
    if time.tzinfo is None:
        raise Rejected(
            "a time needs its offset", field="time", value=time.isoformat(), allowed="RFC 3339"
        )
    since = time - _EPOCH
    return (since.days * 86_400 + since.seconds) * MICROS + since.microseconds


def _in_time(time_us: int, rules: Rules, *, field: str = "time") -> int:
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

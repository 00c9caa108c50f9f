"""What an event must be like to be accepted; the rest is refused with field and what is allowed.

Cheap on purpose: an accepted event costs a few microseconds, because it is on ingest's hot path.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from signals.basic_events import check_basic
from signals.definitions import Definition
from signals.errors import Rejected
from signals.events import MICROS, Signal
from signals.rules import ID_RULE, MAX_ID, Rules, allow, in_time, target_of_request, usable_id
from signals.settings import MetricSettings
from signals.wire import Posted

NEAR: Final = 3

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def check(posted: Posted, rules: Rules) -> Signal:
    """The signal, ready for the bus. Raises ``Rejected``, or ``Denied`` when the key is narrower.

    >>> from signals.definitions import StaticDefinitions
    >>> from signals.ingest.keys import Producer
    >>> from signals.settings import IngestSettings, MetricSettings
    >>> rules = Rules(
    ...     producer=Producer(name="shop", kinds=frozenset({"business"})),
    ...     definitions=StaticDefinitions({"copied": MetricSettings()}).current(),
    ...     targets={"chat"},
    ...     settings=IngestSettings(), now_us=1_700_000_000_000_000)
    >>> posted = Posted(id="1", kind="business", name="copied", value=True, target="chat",
    ...     external_id="order-7", time=datetime.fromtimestamp(1_700_000_000, UTC))
    >>> check(posted, rules).value
    1.0
    """
    if not usable_id(posted.id):
        raise Rejected("the id is not usable", field="id", allowed=ID_RULE)
    return check_basic(posted, rules) if posted.kind == "basic" else _feedback(posted, rules)


def _feedback(posted: Posted, rules: Rules) -> Signal:
    """A business or semantic event."""
    if posted.data is not None:
        raise Rejected("only basic events carry data", field="data")
    definition = _definition(posted, rules.definitions)
    target = _target_of_feedback(posted)
    allow(posted, target, rules)
    return Signal(
        id=posted.id,
        producer=rules.producer.name,
        kind=posted.kind,
        name=posted.name,
        target=target,
        time_us=in_time(_time_us(posted.time), rules),
        value=_value(posted.value, definition.metric),
        request_id=posted.request_id,
        external_id=posted.external_id,
        definition=definition.version,
    )


def _definition(posted: Posted, definitions: Mapping[str, Definition]) -> Definition:
    definition = definitions.get(posted.name)
    if definition is None:
        near = _near(posted.name[:MAX_ID], tuple(definitions))
        raise Rejected(
            f"metric {posted.name[:MAX_ID]!r} is not declared",
            field="name",
            value=posted.name[:MAX_ID],
            allowed=near or sorted(definitions)[:20],
        )
    metric = definition.metric
    if metric.layer != posted.kind:
        raise Rejected(
            f"metric {posted.name!r} is a {metric.layer} metric",
            field="kind",
            value=posted.kind,
            allowed=metric.layer,
        )
    return definition


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
        return _agreed_target(posted.request_id, posted.target)
    if posted.external_id is None or not usable_id(posted.external_id):
        raise Rejected("the id is not usable", field="external_id", allowed=ID_RULE)
    if posted.target is None:
        raise Rejected("an external id needs the target it was sent to", field="target")
    return posted.target


def _agreed_target(request_id: str, target: str | None) -> str:
    named = target_of_request(request_id)
    if named is None:
        raise Rejected(
            "not a request id",
            field="request_id",
            value=request_id[:MAX_ID],
            allowed="<target>.<uuid7>",
        )
    if target is not None and target != named:
        raise Rejected(
            "the request id names another target", field="target", value=target, allowed=named
        )
    return named


def _time_us(time: datetime | None) -> int:
    if time is None:
        raise Rejected("a time is required", field="time", allowed="RFC 3339 with an offset")
    if time.tzinfo is None:
        raise Rejected(
            "a time needs its offset", field="time", value=time.isoformat(), allowed="RFC 3339"
        )
    since = time - _EPOCH
    return (since.days * 86_400 + since.seconds) * MICROS + since.microseconds

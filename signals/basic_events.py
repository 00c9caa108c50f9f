"""An engine's own events: the record says everything, and the rest must agree with it."""

from __future__ import annotations

from typing import Final

from signals.errors import Rejected
from signals.events import MICROS, Arrived, Finished, Record, Second, Signal
from signals.records import RECORD_NAMES, TIME_FIELDS, event_time_us, record_id, record_name
from signals.rules import ID_RULE, Rules, allow, in_time, target_of_request, usable_id
from signals.wire import Posted

MAX_INTENTS: Final = 64
MAX_SECOND_S: Final = 3600
MAX_COUNT: Final = 2**53
"""What JSON numbers carry exactly everywhere; sums of many still fit the store's 64 bits."""


def check_basic(posted: Posted, rules: Rules) -> Signal:
    """The signal, ready for the bus. Raises ``Rejected`` or ``Denied``."""
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
    allow(posted, stamp.target, rules)
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


def _record_fits(record: Record, rules: Rules) -> None:
    """Bounds that the record's types do not say."""
    in_time(event_time_us(record), rules, field=f"data.{TIME_FIELDS[type(record)]}")
    trial = record.stamp.trial
    if trial is not None and not 0 <= trial.block <= MAX_COUNT:
        field = "data.stamp.trial.block"
        raise Rejected("no block", field=field, value=trial.block, allowed="0..2^53")
    for name, value in _counts(record):
        if not 0 <= value <= MAX_COUNT:
            raise Rejected("no count", field=f"data.{name}", value=value, allowed="0..2^53")
    if isinstance(record, Arrived | Finished):
        if target_of_request(record.request_id) != record.stamp.target:
            allowed = f"{record.stamp.target}.<uuid7>"
            raise Rejected("not an id of this engine's", field="data.request_id", allowed=allowed)
        in_time(record.arrival_us, rules, field="data.arrival_us")
        for name in ("external_id", "session_id"):
            value = getattr(record, name)
            if value is not None and not usable_id(value):
                raise Rejected("the id is not usable", field=f"data.{name}", allowed=ID_RULE)
    if isinstance(record, Finished) and record.finished_us < record.arrival_us:
        raise Rejected("finished before it arrived", field="data.finished_us")
    if isinstance(record, Second):
        if not 0 <= record.to_us - record.from_us <= MAX_SECOND_S * MICROS:
            raise Rejected("not a span", field="data.from_us", allowed=f"{MAX_SECOND_S} s at most")
        if len(record.intents) > MAX_INTENTS:
            raise Rejected("too many intents", field="data.intents", allowed=MAX_INTENTS)


def _counts(record: Record) -> list[tuple[str, int]]:
    """Every whole number that a record carries at its top, by field."""
    named = ((name, getattr(record, name)) for name in record.__struct_fields__)
    return [(name, value) for name, value in named if type(value) is int]

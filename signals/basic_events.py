"""An engine's own events: the record says everything, and the rest must agree with it."""

from __future__ import annotations

from signals.edge_records import check_counted, check_named
from signals.errors import Rejected
from signals.events import (
    Arrived,
    Counted,
    Finished,
    Named,
    Record,
    Second,
    SeenStamp,
    Signal,
    Started,
)
from signals.record_bounds import (
    MAX_POLICIES,
    check_counts,
    check_many,
    check_names,
    check_request,
    check_second,
    check_started,
    check_texts,
    check_tokens,
)
from signals.records import RECORD_NAMES, TIME_FIELDS, event_time_us, record_id, record_name
from signals.rules import MAX_ID, Rules, allow, in_time
from signals.wire import Posted


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
            raise Rejected(f"the record says {said[:MAX_ID]!r}", field=field, value=given[:MAX_ID])
    for field in ("value", "request_id", "external_id", "session_id", "model"):
        if getattr(posted, field) is not None:
            raise Rejected("basic events carry their record, and nothing beside it", field=field)
    allow(posted.kind, posted.name, stamp.target, rules)
    in_time(event_time_us(record), rules, field=f"data.{TIME_FIELDS[type(record)]}")
    _check_stamp(stamp)
    _check_record(record, rules)
    if rules.pseudonyms is not None:
        record = rules.pseudonyms.record(record)
    return Signal(
        id=record_id(record),
        producer=rules.producer.name,
        kind="basic",
        name=posted.name,
        target=stamp.target,
        time_us=event_time_us(record),
        data=record,
    )


def _check_stamp(stamp: SeenStamp) -> None:
    check_counts(stamp, "data.stamp")
    check_names(stamp, ("digest",), "data.stamp")
    check_many(stamp.policies, MAX_POLICIES, "data.stamp.policies")
    check_texts(stamp.policies, "data.stamp.policies")
    if stamp.trial is not None:
        check_counts(stamp.trial, "data.stamp.trial")
        check_names(stamp.trial, ("id",), "data.stamp.trial")


def _check_record(record: Record, rules: Rules) -> None:
    """Bounds that the record's types do not say."""
    check_counts(record, "data")
    if isinstance(record, Arrived | Finished):
        check_request(record, record.stamp.target, rules, "data")
        check_tokens(record)
    if isinstance(record, Finished) and record.finished_us < record.arrival_us:
        raise Rejected("finished before it arrived", field="data.finished_us")
    if isinstance(record, Second):
        check_second(record)
    if isinstance(record, Started):
        check_started(record)
    if isinstance(record, Counted):
        check_counted(record, rules)
    if isinstance(record, Named):
        check_named(record, rules)

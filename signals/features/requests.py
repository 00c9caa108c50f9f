"""Request rows: made from an engine's records, and judged against their service level.

A request is judged when it completes, or as failed when its deadline passes:

====================================  =====================================================
finished by its deadline              good if ``ok`` (or cancelled) and within every SLO,
                                      at ``finished_us``
finished after it, or unfinished      not good, at ``deadline_us``
when the watermark passes it
otherwise                             not decided
====================================  =====================================================

Both depend on event times only, so a late record gives the same judgement as an early one: a
request that did finish in time is judged anew, one that finished too late stays as it is.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from signals.events import Arrived, Finished, NamedRequest, SeenStamp
from signals.features.model import RequestRow
from signals.settings import Slo


class Judgement(Struct, frozen=True):
    """Whether a request was good, and the event time at which that was settled."""

    good: bool
    at_us: int


def row_of_arrival(record: Arrived, slo: Slo) -> RequestRow:
    """A request that was accepted and has not ended."""
    return msgspec.structs.replace(
        _known_at_arrival(record, slo), external_id=record.external_id, session_id=record.session_id
    )


def row_of_end(record: Finished, arrived: RequestRow | None, slo: Slo) -> RequestRow:
    """The request with its end. ``arrived``: what its arrival said, when that is known."""
    return msgspec.structs.replace(
        arrived or _known_at_arrival(record, slo),
        finished_us=record.finished_us,
        status=record.status,
        output_tokens=record.output_tokens,
        queue_us=record.queue_us,
        ttft_us=record.ttft_us,
        tpot_us=record.tpot_us,
        preemptions=record.preemptions,
        error=record.error,
        external_id=record.external_id or (arrived.external_id if arrived else None),
        session_id=record.session_id or (arrived.session_id if arrived else None),
    )


def with_ids(row: RequestRow, record: Arrived) -> RequestRow:
    """The request with the ids that its arrival says and its end did not."""
    return msgspec.structs.replace(
        row,
        external_id=row.external_id or record.external_id,
        session_id=row.session_id or record.session_id,
    )


def row_of_named(stamp: SeenStamp, request: NamedRequest) -> RequestRow:
    """A request that was counted at the edge: it can be joined to, and is judged there."""
    record = Arrived(
        seq=0,
        stamp=stamp,
        request_id=request.request_id,
        intent=request.intent,
        class_=request.class_,
        arrival_us=request.arrival_us,
        prompt_tokens=0,
        max_tokens=0,
        external_id=request.external_id,
        session_id=request.session_id,
    )
    return msgspec.structs.replace(row_of_arrival(record, Slo()), counted=True)


def judge(row: RequestRow, slo: Slo, *, watermark_us: int) -> Judgement | None:
    """What is settled about a request once engines have reported up to ``watermark_us``."""
    due_us = row.deadline_us
    if row.finished_us is not None and (due_us is None or row.finished_us <= due_us):
        return Judgement(_met(row, slo, row.finished_us), row.finished_us)
    if due_us is not None and (row.finished_us is not None or watermark_us >= due_us):
        return Judgement(False, due_us)
    return None


def judged(row: RequestRow) -> Judgement | None:
    """The judgement that a row carries."""
    if row.good is None:
        return None
    finished_us, due_us = row.finished_us, row.deadline_us
    if finished_us is not None and (due_us is None or finished_us <= due_us):
        return Judgement(row.good, finished_us)
    return None if due_us is None else Judgement(row.good, due_us)


def _met(row: RequestRow, slo: Slo, finished_us: int) -> bool:
    return row.status in ("ok", "cancelled") and slo.met(
        ttft_us=row.ttft_us, tpot_us=row.tpot_us, e2e_us=finished_us - row.arrival_us
    )


def _deadline_us(record: Arrived | Finished, slo: Slo) -> int | None:
    """Nothing but an end can fail a request whose only limit is on its first token: an unfinished
    one may have had its first token in time."""
    if slo.tpot_ms is None and slo.e2e_ms is None:
        return None
    within_us = slo.deadline_us(record.max_tokens)
    return None if within_us is None else record.arrival_us + within_us


def _known_at_arrival(record: Arrived | Finished, slo: Slo) -> RequestRow:
    stamp: SeenStamp = record.stamp
    trial = stamp.trial
    return RequestRow(
        request_id=record.request_id,
        target=stamp.target,
        replica=stamp.replica,
        incarnation=stamp.incarnation,
        version=stamp.version,
        digest=stamp.digest,
        policies=stamp.policies,
        trial=trial.id if trial else "",
        block=trial.block if trial else -1,
        arm=trial.arm if trial else None,
        intent=record.intent,
        class_=record.class_,
        arrival_us=record.arrival_us,
        deadline_us=_deadline_us(record, slo),
        finished_us=None,
        status=None,
        prompt_tokens=record.prompt_tokens,
        output_tokens=0,
        max_tokens=record.max_tokens,
        queue_us=None,
        ttft_us=None,
        tpot_us=None,
        good=None,
        preemptions=0,
        error=None,
        external_id=None,
        session_id=None,
    )

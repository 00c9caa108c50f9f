"""A visit as the feature stage would know it by now: made by its own code, from the records."""

from __future__ import annotations

import math

from msgspec.structs import replace

from engine.simulated.replica import Replica
from engine.simulated.visit import Visit
from engine.stamps import seen
from signals.events import Arrived, Finished
from signals.features.model import RequestRow
from signals.features.requests import judge, row_of_arrival, row_of_end
from signals.settings import Slo


def request_row(visit: Visit, replica: Replica, slo: Slo, *, now_us: int) -> RequestRow | None:
    """The row at ``now_us``, which never goes back; None when every record of it was lost.

    Asked for again and again by whoever decides, so each is made at most twice: at its arrival, and
    at its end, after which nothing about it changes. Between the two ``visit.told`` will do until
    ``visit.stands_us``.
    """
    if visit.settled:
        return visit.row
    ended_us = visit.finished_us
    if visit.row is None and not replica.lost(visit.arrival_us):
        visit.row = row_of_arrival(_arrived(visit, replica), slo)
    watermark_us = now_us + replica.skew_us(now_us)
    if ended_us is not None and ended_us <= now_us and not replica.lost(ended_us):
        row = row_of_end(_finished(visit, ended_us, replica), visit.row, slo)
        visit.row, visit.settled = _judged(row, slo, watermark_us), True
        return visit.row
    if visit.row is None:
        return None
    row = visit.told = _judged(visit.row, slo, watermark_us)
    if replica.keeps_time:
        undecided = row.good is None and row.deadline_us is not None
        visit.stands_us = float(row.deadline_us or 0) if undecided else math.inf
    return row


def _judged(row: RequestRow, slo: Slo, watermark_us: int) -> RequestRow:
    judgement = judge(row, slo, watermark_us=watermark_us)
    return row if judgement is None else replace(row, good=judgement.good)


def _arrived(visit: Visit, replica: Replica) -> Arrived:
    offered = visit.offered
    return Arrived(
        seq=0,
        stamp=seen(visit.stamp),
        request_id=visit.request_id(visit.stamp.target),
        intent=offered.intent,
        class_=offered.class_,
        arrival_us=visit.arrival_us + replica.skew_us(visit.arrival_us),
        prompt_tokens=offered.prompt_tokens,
        max_tokens=offered.output_tokens,
        session_id=offered.session,
    )


def _finished(visit: Visit, ended_us: float, replica: Replica) -> Finished:
    offered, arrival_us = visit.offered, visit.arrival_us
    told_us = arrival_us + replica.skew_us(arrival_us)
    return Finished(
        seq=0,
        stamp=seen(visit.stamp),
        request_id=visit.request_id(visit.stamp.target),
        intent=offered.intent,
        class_=offered.class_,
        arrival_us=told_us,
        finished_us=told_us + round(ended_us) - arrival_us,
        status=visit.status or "ok",
        prompt_tokens=offered.prompt_tokens,
        output_tokens=visit.emitted,
        max_tokens=offered.output_tokens,
        queue_us=_since(visit, visit.admitted_us),
        ttft_us=_since(visit, visit.first_us),
        tpot_us=_tpot_us(visit, ended_us),
        preemptions=visit.preemptions,
        error=visit.error,
        session_id=offered.session,
    )


def _since(visit: Visit, moment_us: float | None) -> int | None:
    return None if moment_us is None else round(moment_us) - visit.arrival_us


def _tpot_us(visit: Visit, ended_us: float) -> int | None:
    if visit.first_us is None or visit.emitted < 2:
        return None
    return round((ended_us - visit.first_us) / (visit.emitted - 1))

"""``/v1/producers``: who posts what, how much is joined, whose clock is off; set one aside."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import APIRouter, Response

from controller.api.access import Caller, Wired
from controller.api.answers import Answer, given
from controller.api.bodies import WithReason
from controller.api.problems import documented
from controller.keys import COMMAND, SERVE, influences

router = APIRouter(prefix="/v1/producers", tags=["producers"])

ACT = documented(404, 409, 422)


@router.get("")
def listed(services: Wired) -> Response:
    """What became of each producer's events, its clock of late, and what it may and has.

    ``influence``: the most that its values may weigh in any rate; ``quarantine``: since when, by
    whom and why its feedback is set aside.
    """
    reports = services.inspection.producers()
    aside = services.inspection.quarantined()
    with services.store.read() as tx:
        keys = tx.keys()
    caps = influences(keys, now_us=services.clock())
    posting = {key.name for key in keys if key.role == "producer" and COMMAND not in key.kinds}
    found: list[dict[str, Any]] = []
    for name in sorted((posting | {*reports, *aside}) - {SERVE}):
        report = reports.get(name)
        shown = {"producer": name} if report is None else msgspec.to_builtins(report)
        found.append(shown | {"influence": caps.get(name), "quarantine": aside.get(name)})
    return Answer({"items": found})


@router.post("/{producer}/quarantine", status_code=202, responses=ACT)
def quarantine(producer: str, body: WithReason, services: Wired, caller: Caller) -> Response:
    """Set aside the feedback it posts from now on, as dead letters that can be replayed."""
    return given(services.feedback.quarantine(producer, body.reason, by=caller))


@router.post("/{producer}/release", status_code=202, responses=ACT)
def release(producer: str, body: WithReason, services: Wired, caller: Caller) -> Response:
    """Count its feedback again; what was set aside waits to be replayed or discarded."""
    return given(services.feedback.release(producer, body.reason, by=caller))

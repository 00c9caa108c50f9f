"""``/v1/targets/{target}/worth``: what the loop was worth in a week."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from controller.api.access import Wired
from controller.api.answers import Answer
from controller.api.problems import documented
from controller.api.target_views import declared
from controller.history.worth import WEEK_US, week_of, worth_report

router = APIRouter(prefix="/v1", tags=["history"])

Week = Annotated[
    str | None,
    Query(description="an ISO week in UTC, e.g. 2026-W49; without: the last 7 days", max_length=8),
]


@router.get("/targets/{target}/worth", responses=documented(404, 422))
def worth(target: str, services: Wired, week: Week = None) -> Response:
    """What the loop was worth: blocks as usual against those on the baseline, drawn by chance.

    Without a holdback nobody can say; then there are only the effects that trials found.
    """
    aim, now_us = declared(services, target), services.clock()
    from_us, to_us = (now_us - WEEK_US, now_us + 1) if week is None else week_of(week)
    with services.store.read() as tx:
        return Answer(
            worth_report(
                tx, target, from_us=from_us, to_us=to_us, holdback=aim.holdback is not None
            )
        )

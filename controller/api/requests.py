"""``/v1/requests``: what happened to one request, and why the engine was set as it was then."""

from __future__ import annotations

from fastapi import APIRouter, Response

from controller.api import past_views
from controller.api.access import Wired
from controller.api.answers import Answer, Limit
from controller.api.problems import documented
from controller.api.target_views import declared

router = APIRouter(prefix="/v1/requests", tags=["requests"])


@router.get("", responses=documented(404, 422))
def found(
    target: str,
    services: Wired,
    good: bool | None = None,
    intent: str | None = None,
    limit: Limit = 20,
) -> Response:
    """The latest requests of a target, e.g. bad ones (``good=false``)."""
    declared(services, target)
    rows = services.features.find_requests(target, good=good, intent=intent, limit=limit)
    return Answer({"items": rows})


@router.get("/{request_id}", responses=documented(404, 422))
def why(request_id: str, services: Wired) -> Response:
    """The request, the settings it was served under, all that made them so, and what followed.

    ``met.touched`` lists each policy, override, baseline and trial with its audit entries. Of a
    request whose row is forgotten ``request`` is null, and ``met`` is told by when it arrived.
    """
    return Answer(past_views.request_seen(services, request_id))

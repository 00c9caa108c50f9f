"""``/v1/erasures``: let go of what is stored about a request, a session or an external id."""

from __future__ import annotations

from fastapi import APIRouter, Response
from pydantic import Field

from controller.api.access import Caller, Wired, check_target
from controller.api.answers import Answer
from controller.api.bodies import Body, Reason
from controller.api.problems import documented
from controller.erasing import Whose
from signals.events import ErasedBy
from signals.rules import MAX_ID
from signals.settings import Name

router = APIRouter(prefix="/v1/erasures", tags=["erasures"])


class ErasureBody(Body):
    """Whose traces go. The id is kept nowhere: the audit has its pseudonym."""

    by: ErasedBy
    id: str = Field(min_length=1, max_length=MAX_ID)
    target: Name | None = Field(default=None, description="only there; a request id says its own")
    also_plain: bool = Field(
        default=False, description="where ids are hashed: also what was stored before they were"
    )
    reason: Reason


@router.post("", status_code=202, responses=documented(404, 409, 422))
def requested(body: ErasureBody, services: Wired, caller: Caller) -> Response:
    """Have it let go of, by the feature stage, in order with everything else.

    202 with the command's id; `/v1/commands/{id}` says what became of it. `remains` says where
    the id may still be, and until when. The same again does no harm, and takes what was `left`.
    """
    check_target(caller, body.target)
    whose = Whose(by=body.by, id=body.id, target=body.target, also_plain=body.also_plain)
    erasing = services.erasures.request(whose, body.reason, by=caller)
    where = {"Location": f"/v1/commands/{erasing.command.id}"}
    return Answer(erasing, status_code=202, headers=where)

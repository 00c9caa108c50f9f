"""``/v1/audit``: who did what, exported as it was hashed, and checked against the rows."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse

from controller.api.access import Wired
from controller.api.answers import NDJSON, Answer
from controller.api.problems import documented
from controller.audit.export import export
from controller.audit.verify import verify

router = APIRouter(prefix="/v1/audit", tags=["audit"])

After = Annotated[int, Query(ge=-1, description="only entries with a higher index")]
LINES: dict[int | str, dict[str, Any]] = {
    200: {"content": {NDJSON: {}}, "description": "one entry a line, in order"}
}


@router.get("", responses={**LINES, **documented(422)})
def exported(services: Wired, after: After = -1) -> Response:
    """The audit as JSON lines: index, leaf hash, and the stored bytes verbatim as a string."""
    return StreamingResponse(export(services.store_file, after=after), media_type=NDJSON)


@router.get("/verify")
def verified(services: Wired) -> Response:
    """Check every entry and the rows they speak of; ``findings`` names each that disagrees."""
    found = verify(services.store_file)
    return Answer({"clean": found.clean, "result": found})

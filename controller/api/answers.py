"""How answers are written: JSON and NDJSON straight from the records, without a second schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import msgspec
from fastapi import Query, Response
from fastapi.responses import JSONResponse, StreamingResponse

from controller.feedback import Given

NDJSON = "application/x-ndjson"
LINES_AT_ONCE = 500

Limit = Annotated[int, Query(ge=1, le=1000, description="rows at most")]


class Answer(JSONResponse):
    """A JSON answer; records are encoded as they are."""

    def render(self, content: Any) -> bytes:
        """Records, mappings and lists as JSON."""
        return msgspec.json.encode(content)


def lines(rows: Sequence[Any]) -> StreamingResponse:
    """One JSON document a line, encoded a few hundred at a time while they are sent."""
    return StreamingResponse(_encoded(rows), media_type=NDJSON)


def page(rows: Sequence[Any], limit: int, cursor: str | int | None) -> dict[str, Any]:
    """A page and, when there may be more, the cursor of the next one."""
    return {"items": rows, "next": cursor if len(rows) == limit else None}


def given(command: Given) -> Response:
    """202 for a command that is on the bus, and where to ask what became of it."""
    return Answer(command, status_code=202, headers={"Location": f"/v1/commands/{command.id}"})


def _encoded(rows: Sequence[Any]) -> Iterator[bytes]:
    encoder = msgspec.json.Encoder()
    for start in range(0, len(rows), LINES_AT_ONCE):
        yield encoder.encode_lines(rows[start : start + LINES_AT_ONCE])

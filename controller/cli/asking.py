"""How commands ask for the past: times as people write them, and answers as lines or tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import typer

from controller.cli.client import Client
from signals.errors import Rejected

TIMES = "30m, 2h, 7d ago, or RFC 3339 with an offset, e.g. 2026-11-24T03:00Z"

Since = Annotated[str | None, typer.Option("--since", "--from", help=f"From then on: {TIMES}.")]
Until = Annotated[str | None, typer.Option("--to", help="Until then; default: now.")]
Form = Literal["table", "csv", "jsonl"]
FORMS: Mapping[str, Form] = {"table": "table", "csv": "csv", "jsonl": "jsonl"}
As = Annotated[
    str, typer.Option("--as", help="table: a page; csv or jsonl: all of it, to standard output.")
]

ACCEPT = {"csv": "text/csv", "jsonl": "application/x-ndjson"}


def form(text: str) -> Form:
    """Raises ``Rejected``."""
    found = FORMS.get(text)
    if found is None:
        raise Rejected("no such form", field="--as", value=text, allowed=", ".join(FORMS))
    return found


def lines(client: Client, path: str, how: Form, **query: Any) -> Iterator[str]:
    """All of an answer in lines, as they come."""
    yield from client.lines(path, accept=ACCEPT[how], **query)

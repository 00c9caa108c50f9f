"""``trimtab signals`` and ``trimtab dead-letters``: feedback in, and what could not be used."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from controller.cli.client import Client, read_key
from controller.cli.root import Json, root_of, show
from controller.cli.tables import table, when

app = typer.Typer(help="Post feedback.", no_args_is_help=True, rich_markup_mode=None)
dead_letters = typer.Typer(
    help="Signals that could not be used.", no_args_is_help=True, rich_markup_mode=None
)


@app.command()
def post(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="Events as JSON or NDJSON; `-` reads them in.")],
    key: Annotated[Path, typer.Option("--key", help="The producer's key file.")],
    url: Annotated[
        str | None, typer.Option(help="The signals API; default: as configured.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Post events to the signals API; they are on disk when this returns.

    \b
    echo '{"id": "1", "kind": "business", "time": "2026-01-01T00:00:00Z", "name": "thumbs",
      "value": 1, "request_id": "chat.0190…"}' | trimtab signals post - --key shop.key
    """
    body = sys.stdin.buffer.read() if os.fspath(file) == "-" else file.read_bytes()
    ingest = root_of(ctx).settings.ingest
    where = url or f"http://{ingest.host}:{ingest.port}"
    with closing(Client(where, read_key(key))) as client:
        show(client.post("/v1/signals", body, content_type=_type(body)), as_json, _posted)


@dead_letters.command("list")
def listed(
    ctx: typer.Context,
    after: Annotated[int, typer.Option(min=0, help="Above this offset: the next page.")] = 0,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 100,
    as_json: Json = False,
) -> None:
    """List signals that were accepted and could not be used, as they came in, with the reason."""
    with root_of(ctx).client() as client:
        show(client.get("/v1/dead-letters", after=after, limit=limit), as_json, _table)


def _type(body: bytes) -> str:
    """One JSON value in several lines is not NDJSON; several lines that each open one are."""
    lines = [line for line in body.splitlines() if line.strip()]
    many = len(lines) > 1 and all(line.lstrip().startswith(b"{") for line in lines)
    return "application/x-ndjson" if many else "application/json"


def _posted(answer: Any) -> str:
    told = [f"{answer['accepted']} accepted, {answer['duplicates']} of them seen before"]
    told += [f"refused: {one}" for one in answer["refused"]]
    return "\n".join(told)


def _table(found: Any) -> str:
    rows = [
        (
            d["offset"],
            when(d["accepted_us"]),
            d["reason"],
            d["producer"],
            d["event_id"],
            d["detail"],
        )
        for d in found["items"]
    ]
    head = ["offset", "accepted", "reason", "producer", "event", "detail"]
    more = f"\nmore: --after {found['next']}" if found["next"] else ""
    return table(head, rows, none="no dead letters") + more

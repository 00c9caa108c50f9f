"""``trimtab dead-letters``: signals that were accepted and could not be used."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from controller.cli.root import Json, root_of, show
from controller.cli.tables import table, when

app = typer.Typer(
    help="Signals that could not be used.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("list")
def listed(
    ctx: typer.Context,
    after: Annotated[int, typer.Option(min=0, help="Above this offset: the next page.")] = 0,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 100,
    as_json: Json = False,
) -> None:
    """List signals that were accepted and could not be used, as they came in, with the reason."""
    with root_of(ctx).client() as client:
        show(client.get("/v1/dead-letters", after=after, limit=limit), as_json, _table)


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

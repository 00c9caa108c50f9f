"""``trimtab changes``: say what is done to a target beside Trimtab; its trials wait meanwhile."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from controller.cli.root import Json, root_of, show
from controller.cli.tables import table, when
from controller.cli.tailing import moment
from controller.history.times import span
from controller.keys import wall_us
from signals.events import MICROS

app = typer.Typer(
    help="Declared deploys, scalings, incidents: trials wait for them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

ChangeId = Annotated[str, typer.Argument(help="A change's id, from `trimtab changes list`.")]


@app.command()
def declare(
    ctx: typer.Context,
    target: Annotated[str, typer.Argument(help="A target's name.")],
    kind: Annotated[str, typer.Argument(help="deploy, scale, gateway, incident or other.")],
    reason: Annotated[str, typer.Option("--reason", "-m", help="What is changed, in words.")],
    lasts: Annotated[
        str | None,
        typer.Option("--for", help="How long, e.g. 15m; without it: until `changes end`."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Say that a target is changed: no trial begins, and a running one is suspended.

    The unit that is running counts for nothing. The trial goes on by itself, in a fresh unit, once
    the change is over and `guardrails.settle_s` have passed. In a pipeline:

    \b
    trimtab changes declare chat deploy --reason "model v12" --for 15m
    """
    body: dict[str, Any] = {"target": target, "kind": kind, "reason": reason}
    if lasts is not None:
        body["duration_s"] = max(1, span(lasts) // MICROS)
    with root_of(ctx).client() as client:
        show(client.post("/v1/changes", body), as_json, _line)


@app.command()
def end(ctx: typer.Context, change_id: ChangeId, as_json: Json = False) -> None:
    """Say that a change is over, also before the end that was planned."""
    with root_of(ctx).client() as client:
        show(client.post(f"/v1/changes/{change_id}/end"), as_json, _line)


@app.command("list")
def listed(
    ctx: typer.Context,
    target: Annotated[str | None, typer.Option(help="Only this target's.")] = None,
    going_on: Annotated[bool, typer.Option("--open", help="Only those not over yet.")] = False,
    since: Annotated[
        str | None, typer.Option("--from", help="Going on since: 2h, 1d ago, or RFC 3339.")
    ] = None,
    before: Annotated[str | None, typer.Option(help="Older than this id: the next page.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 20,
    as_json: Json = False,
) -> None:
    """List declared changes, newest first.

    \b
    trimtab changes list --target chat --open
    """
    from_us = None if since is None else moment(since, wall_us(), field="--from")
    query = {
        "target": target,
        "from": wall_us() if going_on else from_us,
        "before": before,
        "limit": limit,
    }
    with root_of(ctx).client() as client:
        show(client.get("/v1/changes", **query), as_json, _table)


def _table(found: Any) -> str:
    rows = [
        (c["id"], c["target"], c["kind"], when(c["from_us"]), when(c["until_us"]), c["words"])
        for c in found["items"]
    ]
    head = ["id", "target", "kind", "from", "until", "what"]
    more = f"\nmore: --before {found['next']}" if found["next"] else ""
    return table(head, rows, none="no declared changes") + more


def _line(change: Any) -> str:
    until = (
        "until it is ended" if change["until_us"] is None else f"until {when(change['until_us'])}"
    )
    return f"{change['id']} ({change['kind']} of {change['target']}: {change['words']}) {until}"

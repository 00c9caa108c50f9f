"""``trimtab history`` and ``timeline``: who did what, and all that happened to a target."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from controller.cli.asking import As, Since, Until, form, lines
from controller.cli.root import Json, root_of, show
from controller.cli.tables import table, when


def add_to(app: typer.Typer) -> None:
    """Put the commands at the top level."""
    app.command()(history)
    app.command()(timeline)


def history(
    ctx: typer.Context,
    target: Annotated[str | None, typer.Option(help="Only about this target.")] = None,
    actor: Annotated[
        str | None, typer.Option(help="A key's id, `loop`, or break-glass:NAME.")
    ] = None,
    action: Annotated[
        str | None, typer.Option(help="policy.approved, or a family with its dot: override.")
    ] = None,
    subject: Annotated[
        str | None, typer.Option(help="A policy's, override's, trial's or key's id.")
    ] = None,
    since: Since = None,
    to: Until = None,
    before: Annotated[int | None, typer.Option(help="Below this index: the next page.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 50,
    as_: As = "table",
    as_json: Json = False,
) -> None:
    """Say who did what, newest first: every act that the audit holds.

    \b
    trimtab history --target chat --since 24h
    trimtab history --actor loop --action policy. --since 7d
    trimtab history --since 2026-11-01T00:00Z --as csv > november.csv
    """
    how = form(as_)
    query = {
        "target": target,
        "actor": actor,
        "action": action,
        "subject": subject,
        "from": since,
        "to": to,
        "before": before,
    }
    with root_of(ctx).client() as client:
        if how != "table":
            for line in lines(client, "/v1/history", how, **query):
                typer.echo(line)
            return
        found = client.get("/v1/history", limit=limit, **query)
    show(found, as_json, _acts)


def timeline(
    ctx: typer.Context,
    target: Annotated[str, typer.Argument(help="A target's name.")],
    since: Since = None,
    to: Until = None,
    kind: Annotated[
        list[str] | None, typer.Option(help="policy, override, control, settings, …; repeatable.")
    ] = None,
    before: Annotated[str | None, typer.Option(help="The next page, as the last one said.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 50,
    as_json: Json = False,
) -> None:
    """Show what happened to a target, the latest first: decisions, settings, restarts, holes.

    \b
    trimtab timeline chat --since 30m
    trimtab timeline chat --from 2026-11-24T02:30Z --to 2026-11-24T03:30Z --kind policy
    """
    query = {"from": since, "to": to, "kind": kind or None}
    with root_of(ctx).client() as client:
        found = client.get(f"/v1/targets/{target}/timeline", before=before, limit=limit, **query)
    show(found, as_json, happenings)


def happenings(found: Any) -> str:
    """A timeline as a table."""
    rows = [
        (when(x["at_us"]), x["kind"], x["actor"], x["entry"], x["words"]) for x in found["items"]
    ]
    more = f"\nmore: --before {found['next']}" if found["next"] else ""
    return table(["when", "kind", "who", "entry", "what"], rows, none="nothing happened") + more


def _acts(found: Any) -> str:
    rows = [
        (x["index"], when(x["at_us"]), x["actor"], x["action"], x["target"] or "-", x["words"])
        for x in found["items"]
    ]
    more = f"\nmore: --before {found['next']}" if found["next"] is not None else ""
    head = ["entry", "when", "who", "action", "target", "what"]
    return table(head, rows, none="nobody did anything") + more

"""``trimtab signals orphans`` and ``commands``: what waits for its request; what was asked."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from controller.cli.commanding import told
from controller.cli.root import Json, root_of, show
from controller.cli.tables import table, when

Target = Annotated[str | None, typer.Option(help="Only this target's.")]


def orphans(
    ctx: typer.Context,
    target: Target = None,
    producer: Annotated[str | None, typer.Option(help="Only this producer's.")] = None,
    after: Annotated[str, typer.Option(help="The next page, as the last one said.")] = "0",
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 100,
    as_json: Json = False,
) -> None:
    """List feedback whose request is not known yet; it is joined when the request shows up.

    What nobody claims in time becomes a dead letter. Many of them from one producer: it names ids
    that the engine never gave, or its requests go to another target.

    \b
    trimtab signals orphans --target chat --producer shop
    """
    with root_of(ctx).client() as client:
        found = client.get(
            "/v1/orphans", target=target, producer=producer, after=after, limit=limit
        )
    show(found, as_json, _orphans)


def commands(
    ctx: typer.Context,
    command_id: Annotated[
        str | None, typer.Argument(help="One command's id; without it, the latest.")
    ] = None,
    target: Target = None,
    before: Annotated[str | None, typer.Option(help="Older than this id: the next page.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 20,
    as_json: Json = False,
) -> None:
    """Show what was asked about dead letters and producers, by whom, and what became of it.

    \b
    trimtab signals commands
    trimtab signals commands COMMAND_ID
    """
    with root_of(ctx).client() as client:
        if command_id is not None:
            show(client.get(f"/v1/commands/{command_id}"), as_json, told)
            return
        found = client.get("/v1/commands", target=target, before=before, limit=limit)
    show(found, as_json, _commands)


def _orphans(found: Any) -> str:
    rows = [
        (
            one["offset"],
            when(one["accepted_us"]),
            one["target"],
            one["producer"],
            one["name"],
            one.get("request_id") or one.get("external_id") or one.get("session_id"),
        )
        for one in found["items"]
    ]
    head = ["offset", "accepted", "target", "producer", "name", "waits for"]
    counts = ", ".join(f"{count} of {name}" for name, count in found["waiting"].items())
    more = f"\nmore: --after {found['next']}" if found["next"] else ""
    total = f"\nwaiting: {counts}" if counts else ""
    return table(head, rows, none="no orphans") + more + total


def _commands(found: Any) -> str:
    more = f"\nmore: --before {found['next']}" if found["next"] else ""
    return ("\n".join(told(one) for one in found["items"]) or "no commands") + more

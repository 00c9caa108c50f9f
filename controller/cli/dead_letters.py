"""``trimtab dead-letters``: signals that were accepted and could not be used."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from controller.cli.commanding import Wait, give, give_until_done, told
from controller.cli.root import Json, Reason, root_of, show
from controller.cli.tables import table, when
from signals.errors import Rejected

app = typer.Typer(
    help="Signals that could not be used.", no_args_is_help=True, rich_markup_mode=None
)

Target = Annotated[str | None, typer.Option(help="Only this target's.")]
Producer = Annotated[str | None, typer.Option(help="Only this producer's.")]
BuriedFor = Annotated[
    str | None, typer.Option("--for", help="Only those buried for this reason, as listed.")
]
Ids = Annotated[list[str] | None, typer.Argument(help="Letters by id, as listed.")]
Limit = Annotated[
    int | None,
    typer.Option(min=1, max=1000, help="The oldest so many of each target; without it, all."),
]


@app.command("list")
def listed(
    ctx: typer.Context,
    target: Target = None,
    producer: Producer = None,
    buried_for: BuriedFor = None,
    after: Annotated[str, typer.Option(help="The next page, as the last one said.")] = "0",
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 100,
    as_json: Json = False,
) -> None:
    """List signals that were accepted and could not be used, as they came in, with the reason.

    \b
    trimtab dead-letters list --producer shop
    trimtab dead-letters list --for undeclared_metric --target chat
    """
    with root_of(ctx).client() as client:
        found = client.get(
            "/v1/dead-letters",
            target=target,
            producer=producer,
            reason=buried_for,
            after=after,
            limit=limit,
        )
    show(found, as_json, _table)


@app.command("show")
def one(
    ctx: typer.Context,
    letter_id: Annotated[str, typer.Argument(help="A letter's id, as listed.")],
    as_json: Json = False,
) -> None:
    """Show one letter: why it could not be used, and the event as it came in.

    \b
    trimtab dead-letters show 0-4711
    """
    with root_of(ctx).client() as client:
        show(client.get(f"/v1/dead-letters/{letter_id}"), as_json, _words)


@app.command()
def replay(
    ctx: typer.Context,
    reason: Reason,
    ids: Ids = None,
    target: Target = None,
    producer: Producer = None,
    buried_for: BuriedFor = None,
    limit: Limit = None,
    wait_s: Wait = 10,
    as_json: Json = False,
) -> None:
    """Fold letters again, as if they came in now; those that fail again stay.

    After declaring a metric that was missing, or letting a producer in again.

    \b
    trimtab dead-letters replay 0-4711 0-4712 -m "declared thumbs"
    trimtab dead-letters replay --for undeclared_metric --producer shop -m "declared thumbs"
    """
    where = {"target": target, "producer": producer, "reason": buried_for}
    _give(ctx, "replay", _body(ids, where, limit, reason), wait_s, as_json)


@app.command()
def discard(
    ctx: typer.Context,
    reason: Reason,
    ids: Ids = None,
    target: Target = None,
    producer: Producer = None,
    buried_for: BuriedFor = None,
    limit: Limit = None,
    wait_s: Wait = 10,
    as_json: Json = False,
) -> None:
    """Drop letters for good; nothing brings them back.

    \b
    trimtab dead-letters discard --for conflict --producer shop -m "they sent it twice"
    """
    where = {"target": target, "producer": producer, "reason": buried_for}
    _give(ctx, "discard", _body(ids, where, limit, reason), wait_s, as_json)


def _body(
    ids: list[str] | None, where: dict[str, str | None], limit: int | None, reason: str
) -> dict[str, Any]:
    given: dict[str, Any] = {name: value for name, value in where.items() if value is not None}
    if bool(ids) == bool(given):
        raise Rejected(
            "say which letters: their ids, or --target, --producer or --for; not both ways"
        )
    if ids:
        return {"ids": ids, "reason": reason}
    return {"where": given if limit is None else {**given, "limit": limit}, "reason": reason}


def _give(
    ctx: typer.Context, verb: str, body: dict[str, Any], wait_s: float, as_json: bool
) -> None:
    """One command, or as many as it takes to reach every letter that is selected."""
    path = f"/v1/dead-letters/{verb}"
    every = "where" in body and "limit" not in body["where"]
    with root_of(ctx).client() as client:
        if every:
            done = give_until_done(client, path, body, wait_s=wait_s)
        else:
            done = [give(client, path, body, wait_s=wait_s)]
    show({"items": done}, as_json, lambda _: "\n".join(told(one) for one in done))


def _table(found: Any) -> str:
    rows = [
        (
            d["id"],
            when(d["accepted_us"]),
            d["target"],
            d["reason"],
            d["producer"],
            d["event_id"],
            d["attempts"] or "",
            d["detail"],
        )
        for d in found["items"]
    ]
    head = ["id", "accepted", "target", "reason", "producer", "event", "tries", "detail"]
    more = f"\nmore: --after {found['next']}" if found["next"] else ""
    counts = ", ".join(f"{count} {reason}" for reason, count in found["counts"].items())
    total = f"\nin all: {counts}" if counts else ""
    return table(head, rows, none="no dead letters") + more + total


def _words(letter: Any) -> str:
    return "\n".join(
        [
            f"{letter['id']}  {letter['reason']}: {letter['detail']}",
            f"target    {letter['target']}",
            f"producer  {letter['producer']}",
            f"event     {letter['event_id'] or 'unknown'}",
            f"accepted  {when(letter['accepted_us'])}",
            f"replayed  {letter['attempts']} times in vain",
            letter["body"],
        ]
    )

"""``trimtab producers``: who posts what, how much of it is joined, and setting one aside."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from controller.cli.commanding import Wait, give, told
from controller.cli.root import Json, Reason, root_of, show
from controller.cli.tables import share, table, when

app = typer.Typer(help="Those who post signals.", no_args_is_help=True, rich_markup_mode=None)

Name = Annotated[str, typer.Argument(help="A producer's name, as listed.")]


@app.command("list")
def listed(ctx: typer.Context, as_json: Json = False) -> None:
    """List producers: events, how many joined a request, dead letters, clock, quarantine.

    \b
    trimtab producers list
    trimtab producers list --json
    """
    with root_of(ctx).client() as client:
        show(client.get("/v1/producers"), as_json, _table)


@app.command()
def quarantine(
    ctx: typer.Context, producer: Name, reason: Reason, wait_s: Wait = 10, as_json: Json = False
) -> None:
    """Set aside the feedback that a producer posts from now on.

    It is still taken, and kept as dead letters; release the producer, then replay or discard them.

    \b
    trimtab producers quarantine shop -m "every answer is copied since noon"
    trimtab dead-letters list --for quarantined --producer shop
    """
    _act(ctx, producer, "quarantine", reason, wait_s, as_json)


@app.command()
def release(
    ctx: typer.Context, producer: Name, reason: Reason, wait_s: Wait = 10, as_json: Json = False
) -> None:
    """Count a producer's feedback again, from now on.

    \b
    trimtab producers release shop -m "fixed in 4.2"
    trimtab dead-letters replay --for quarantined --producer shop -m "posted before the fault"
    """
    _act(ctx, producer, "release", reason, wait_s, as_json)


def _act(
    ctx: typer.Context, producer: str, verb: str, reason: str, wait_s: float, as_json: bool
) -> None:
    path = f"/v1/producers/{producer}/{verb}"
    with root_of(ctx).client() as client:
        show(give(client, path, {"reason": reason}, wait_s=wait_s), as_json, told)


def _table(found: Any) -> str:
    rows = [_row(one) for one in found["items"]]
    head = ["producer", "events", "joined", "waiting", "dead", "clock", "last", "cap", "state"]
    return table(head, rows, none="no producers")


def _row(one: Any) -> tuple[object, ...]:
    cap = one["influence"]
    shown_cap = "" if cap in (None, 1.0) else share(cap)
    aside = one["quarantine"]
    state = "" if aside is None else f"set aside by {aside['actor']}: {aside['reason']}"
    if "events" not in one:
        return (one["producer"], 0, "-", 0, 0, "-", "-", shown_cap, state)
    return (
        one["producer"],
        one["events"],
        share(one["join_rate"]),
        one["waiting"],
        one["dead"],
        ", ".join(one["clock"]["flags"]) or "ok",
        when(one["accepted_us"] or None),
        shown_cap,
        state,
    )

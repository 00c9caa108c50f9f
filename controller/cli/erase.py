"""``trimtab erase``: let go of what is stored about somebody."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from controller.cli.commanding import Wait, told, watched
from controller.cli.root import Json, Reason, root_of, show
from controller.cli.tables import when
from signals.errors import Rejected

MAX_ROUNDS = 1000
"""Of one call: two million rows."""


def add_to(app: typer.Typer) -> None:
    """Put the command at the top level."""
    app.command()(erase)


def erase(
    ctx: typer.Context,
    reason: Reason,
    request: Annotated[str | None, typer.Option(help="One request, by its id.")] = None,
    session: Annotated[str | None, typer.Option(help="All that named this session.")] = None,
    external: Annotated[str | None, typer.Option(help="All that named this external id.")] = None,
    target: Annotated[str | None, typer.Option(help="Only there.")] = None,
    also_plain: Annotated[
        bool,
        typer.Option("--also-plain", help="Where ids are hashed: also what is older than that."),
    ] = False,
    wait_s: Wait = 10,
    as_json: Json = False,
) -> None:
    """Let go of what is stored about a request, a session or an external id.

    Request rows keep times and counts under an id that leads nowhere; outcomes, waiting feedback
    and dead letters go. The answer says where the id may still be, and until when. The audit
    keeps that it was asked for, never the id.

    \b
    trimtab erase --session conversation-7 -m "asked for by its user"
    trimtab erase --external order-4711 --target chat -m "contract ended"
    trimtab erase --request chat.0199d2a4-5c1e-7b3f-8a6d-2f9e4c7b1a05 -m "a complaint"
    """
    body: dict[str, Any] = {**_whose(request, session, external), "also_plain": also_plain}
    body |= {"reason": reason} if target is None else {"reason": reason, "target": target}
    done, remains = [], []
    with root_of(ctx).client() as client:
        for _ in range(MAX_ROUNDS):
            erasing = client.post("/v1/erasures", body)
            remains = erasing["remains"]
            done.append(watched(client, erasing["command"]["id"], wait_s=wait_s))
            if not any(
                event["outcome"] and event["outcome"]["left"] for event in done[-1]["events"]
            ):
                break
    show({"items": done, "remains": remains}, as_json, _words)


def _whose(request: str | None, session: str | None, external: str | None) -> dict[str, str]:
    named = {"request": request, "session": session, "external": external}
    given = [(by, id_) for by, id_ in named.items() if id_ is not None]
    if len(given) != 1:
        raise Rejected("say whose: one of --request, --session, --external")
    ((by, id_),) = given
    return {"by": by, "id": id_}


def _words(found: Any) -> str:
    lines = [told(one) for one in found["items"]]
    for one in found["remains"]:
        until = one["until_us"]
        last = f"until {when(until)} at the latest" if until else "until it is overwritten"
        lines.append(f"may still be in {one['where']}, {last}")
    return "\n".join(lines)

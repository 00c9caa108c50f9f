"""``trimtab settings show | diff``: what a target's replicas had at a time, and between two."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from controller.cli.asking import TIMES
from controller.cli.client import Client
from controller.cli.root import Json, root_of, show
from controller.cli.tables import table, when

Target = Annotated[str, typer.Argument(help="A target's name.")]


def add_to(app: typer.Typer) -> None:
    """Put the commands beside the group's others."""
    app.command("show")(then)
    app.command("diff")(diff)


def then(
    ctx: typer.Context,
    target: Target,
    at_: Annotated[str, typer.Option("--at", help=f"{TIMES}; default: now.")] = "now",
    intent: Annotated[str | None, typer.Option(help="What this intent's requests get.")] = None,
    replica: Annotated[str | None, typer.Option(help="Only this one.")] = None,
    as_json: Json = False,
) -> None:
    """Show what was in force at a time, who made it so, and the audit entry that says it.

    Where nobody can say, it says from when until when, and why.

    \b
    trimtab settings show chat --at 2026-11-24T03:00Z --intent live
    """
    with root_of(ctx).client() as client:
        found = client.get(f"/v1/targets/{target}/settings", at=at_, intent=intent, replica=replica)
    show(found, as_json, _then)


def diff(
    ctx: typer.Context,
    target: Target,
    since: Annotated[str, typer.Option("--since", "--from", help=f"The first time: {TIMES}.")],
    to: Annotated[str, typer.Option(help="The second; default: now.")] = "now",
    as_json: Json = False,
) -> None:
    """Show what differs between two times on each replica, and through what.

    \b
    trimtab settings diff chat --from 2026-11-24T02:30Z --to 2026-11-24T03:30Z
    """
    with root_of(ctx).client() as client:
        found = difference(client, target, since, to)
    show(found, as_json, lambda one: "\n".join([*differs(one), *through(one)]))


def difference(client: Client, target: str, since: str, to: str = "now") -> Any:
    """The answer of ``settings/diff``."""
    return client.get(f"/v1/targets/{target}/settings/diff", to=to, **{"from": since})


def differs(found: Any) -> list[str]:
    """Each replica's places that differ, or that nobody can say."""
    told = []
    for one in found["replicas"]:
        for side, name in (("from", "before"), ("to", "after")):
            if not one[name]["known"]:
                told.append(f"{one['replica']}  {side}: {unknown(one[name])}")
        told += [f"{one['replica']}  {_difference(each)}" for each in one["differs"]]
        if not one["differs"] and one["before"]["known"] and one["after"]["known"]:
            told.append(f"{one['replica']}  the same at both times")
    return told or ["nothing of this target was recorded yet"]


def through(found: Any) -> list[str]:
    """The moves in between, oldest first; blocks of a trial that change nothing are left out."""
    told = [
        f"{when(move['at_us'])}  {move['replica']}  {_difference(each)}{_under(move)}"
        for move in found["changes"]["moves"]
        for each in move["places"]
    ]
    told += [
        f"{when(one['from_us'])}  {one['replica']}  {unknown(one)}"
        for one in found["changes"]["unknown"]
    ]
    if not found["changes"]["complete"]:
        told.append("there were more changes than one answer holds: ask for a shorter time")
    return told


def unknown(one: Any) -> str:
    """``unknown 03:00:00Z – 03:02:10Z (why)``."""
    until = when(one["until_us"]) if one["until_us"] is not None else "now"
    span = f"until {until}" if one["from_us"] is None else f"{when(one['from_us'])} – {until}"
    return f"unknown {span} ({one['why']})"


def places(one: Any) -> str:
    """One replica's settings with their makers, as a table."""
    rows = [
        (p["place"], p["words"], p["maker"]["kind"], _named(p["maker"]), p["maker"]["entry"])
        for p in one["places"]
    ]
    head = ["place", "setting", "made by", "which, and who decided", "entry"]
    return table(head, rows, none="nothing")


def _then(found: Any) -> str:
    parts = [f"{found['target']} at {when(found['at_us'])}"]
    for one in found["replicas"]:
        if not one["known"]:
            parts.append(f"{one['replica']}: {unknown(one)}")
            continue
        until = "now" if one["until_us"] is None else when(one["until_us"])
        held = ", held" if one["hold"] else ""
        head = f"{one['replica']}: from {when(one['from_us'])} until {until}{held}"
        parts += [f"{head}; audit entry {one['entry']}", places(one)]
    if not found["replicas"]:
        parts.append("nothing of this target was recorded yet")
    return "\n".join(parts)


def _named(maker: Any) -> str:
    by = f" by {', '.join(maker['decided_by'])}" if maker["decided_by"] else ""
    which = "" if maker["id"] == maker["words"] else maker["id"] or ""
    return f"{which} {maker['words']}{by}".strip()


def _difference(each: Any) -> str:
    maker = each["maker"]
    by = f", made by {maker['kind']} {_named(maker)}" if maker else ""
    return f"{each['place']}: {each['before'] or 'nothing'} → {each['after'] or 'nothing'}{by}"


def _under(move: Any) -> str:
    trial = move["trial"]
    under = f", trial {trial['id']} block {trial['block']}" if trial else ""
    return f" ({move['cause']}{under}{', somewhere in an unknown span' if move['hidden'] else ''})"

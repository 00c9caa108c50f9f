"""``trimtab decisions`` and ``replay``: what was decided with which chance, and drawn again."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated, Any

import typer

from controller.cli.root import Json, root_of, show
from controller.cli.tables import table, when
from controller.cli.tailing import moment
from controller.keys import wall_us
from signals.errors import NotFound

DIFFERS = 1
MAX_SHOWN = 20


def add_to(app: typer.Typer) -> None:
    """Put the commands at the top level."""
    app.command()(decisions)
    app.command()(replay)


def decisions(
    ctx: typer.Context,
    target: Annotated[str | None, typer.Option(help="Only this target's.")] = None,
    masked: Annotated[
        bool, typer.Option("--masked", help="Say also what might not be chosen, and why.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 20,
    as_json: Json = False,
) -> None:
    """List what the loop decided, newest first: what it chose, from how many, with which chance.

    `chance` is the probability with which the choice was drawn, and out of how many; what a rule or
    the plant model wants is chosen alone, so with 1. `became` names the policy that came of it, or
    the guardrail that denied it; a dash: nothing is changed.

    \b
    trimtab decisions --target chat --masked
    """
    with root_of(ctx).client() as client:
        found = client.get("/v1/decisions", target=target, limit=limit)
    show(found, as_json, lambda all_of_it: _listed(all_of_it["items"], masked=masked))


def replay(
    ctx: typer.Context,
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="[DECISION_ID]...", help="Default: the latest.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="Only this target's.")] = None,
    since: Annotated[
        str | None, typer.Option(help="10m, 2h, 7d ago, or RFC 3339; default: all kept.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000)] = 1000,
    as_json: Json = False,
) -> None:
    """Draw the learner's stored decisions again: they must come out the same, to the bit.

    In a process of its own, from the store alone, and without reading what became of them. What
    differs is listed and the exit code is 1; what can't be drawn again is counted, with the reason.

    \b
    trimtab replay --target chat --since 24h
    trimtab replay dec_01hz3v
    """
    from controller.replaying import replayed
    from controller.store.sql import SqlReader

    root = root_of(ctx)
    from_us = None if since is None else moment(since, wall_us())
    address = root.settings.store.address(root.layout.store_db)
    with closing(SqlReader(address, root.settings.store)) as reader, reader.read() as tx:
        stored = tx.drawn(target=target, from_us=from_us, ids=ids or (), limit=limit)
        missing = {*(ids or ())} - {one.id for one in stored}
        if missing:
            raise NotFound(
                f"no decision {min(missing)!r}"
                + ("" if target is None and from_us is None else " of that target and time"),
                field="DECISION_ID",
                value=min(missing),
                allowed="an id from `trimtab decisions`",
            )
        if not stored and target is not None and target not in root.settings.targets:
            known = ", ".join(root.settings.targets) or "none is configured"
            raise NotFound(f"no target {target!r}", field="--target", value=target, allowed=known)
        found = replayed(stored, tx.learner)
    show(found, as_json, _replayed)
    if not found.agrees:
        raise typer.Exit(DIFFERS)


def _listed(items: Any, *, masked: bool) -> str:
    rows = []
    for one in items:
        became = one["policy_id"] or (f"denied: {one['guardrail']}" if one["denied"] else "-")
        chance = f"{one['propensity']:.3f} of {len(one['actions']) - len(one['masked'])}"
        rows.append((when(one["at_us"]), one["id"], one["source"], one["chosen"], chance, became))
    head = ["when", "decision", "source", "chosen", "chance", "became"]
    lines = table(head, rows, none="nothing was decided").splitlines()
    if not masked or not rows:
        return "\n".join(lines)
    told = lines[:1]
    for line, one in zip(lines[1:], items, strict=True):
        told += [line, *(f"    not {action}: {why}" for action, why in one["masked"].items())]
    return "\n".join(told)


def _replayed(found: Any) -> str:
    counts = found.counts
    if not found.decisions:
        return "no decision is stored"
    found_again = (
        f"{counts['same']} drawn again and the same, {counts['differs']} differ;"
        f" {counts['forgotten']} whose learner's state is forgotten,"
        f" {counts['other_version']} of another version,"
        f" {counts['no_draw']} without a draw: one thing alone was wanted, or could be chosen"
    )
    differing = [one for one in found.decisions if one.outcome == "differs"]
    told = [f"{when(one.at_us)} {one.id}: {one.words}" for one in differing[:MAX_SHOWN]]
    if len(differing) > MAX_SHOWN:
        told.append("… (--json lists more)")
    return "\n".join([found_again, *told])

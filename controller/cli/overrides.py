"""``pin``, ``force``, ``freeze``, ``unpin``, ``overrides``: a person's word over the loop's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from controller.cli.policies import read_law
from controller.cli.root import Json, Reason, root_of, show
from controller.cli.tables import table, when
from controller.history.times import span
from policies.overrides import OverrideKind
from signals.errors import Rejected
from signals.events import MICROS

Target = Annotated[str, typer.Argument(help="A target's name.")]
Knob = Annotated[str, typer.Argument(help="A knob of its engine.")]
Value = Annotated[int | None, typer.Argument(help="The value, unless --law is given.")]
Law = Annotated[
    Path | None, typer.Option(help="A file with a law as YAML or JSON, instead of a value.")
]
Intent = Annotated[str | None, typer.Option(help="Only for this intent; default: all.")]
For = Annotated[str, typer.Option("--for", help="How long, e.g. 30m, 8h, 1h30m.")]


def add_to(app: typer.Typer) -> None:
    """Put the commands at the top level."""
    for command in (pin, force, freeze, unpin):
        app.command()(command)
    app.command("overrides")(listed)


def pin(
    ctx: typer.Context,
    target: Target,
    knob: Knob,
    reason: Reason,
    lasts: For,
    value: Value = None,
    law: Law = None,
    intent: Intent = None,
    as_json: Json = False,
) -> None:
    """Set a knob whatever the loop thinks; a trial on it pauses. A kill takes pins away.

    The engine itself ends it in time, also when the controller is gone.

    \b
    trimtab pin chat active_cap 8 --for 8h --reason "month's end"
    """
    _set(ctx, "pin", target, _setting(knob, value, law), reason, lasts, intent, as_json)


def force(
    ctx: typer.Context,
    target: Target,
    knob: Knob,
    reason: Reason,
    lasts: For,
    value: Value = None,
    law: Law = None,
    intent: Intent = None,
    as_json: Json = False,
) -> None:
    """Set a knob over everything, a hold and a kill too.

    \b
    trimtab force chat active_cap 2 --for 30m --reason "memory is nearly full"
    """
    _set(ctx, "force", target, _setting(knob, value, law), reason, lasts, intent, as_json)


def freeze(
    ctx: typer.Context,
    target: Target,
    reason: Reason,
    lasts: For,
    knob: Annotated[str | None, typer.Argument(help="Only this knob; default: all.")] = None,
    intent: Intent = None,
    as_json: Json = False,
) -> None:
    """Let the loop begin nothing new; what is in force stays, a trial there pauses.

    \b
    trimtab freeze chat --for 12h --reason "the audit is in the house"
    """
    what = {} if knob is None else {"knob": knob}
    _set(ctx, "freeze", target, what, reason, lasts, intent, as_json)


def unpin(
    ctx: typer.Context,
    override_id: Annotated[str, typer.Argument(help="An id from `trimtab overrides`.")],
    reason: Reason,
    as_json: Json = False,
) -> None:
    """Release a pin, a force or a freeze before its time.

    \b
    trimtab unpin pin_0190... --reason "month's end is over"
    """
    with root_of(ctx).client() as client:
        ended = client.delete(f"/v1/overrides/{override_id}", {"reason": reason})
    show(ended, as_json, lambda one: f"{one['id']} is released: {one['words']}")


def listed(
    ctx: typer.Context,
    target: Annotated[str | None, typer.Argument(help="Only this target's.")] = None,
    ended: Annotated[bool, typer.Option("--ended", help="Those that are over, too.")] = False,
    before: Annotated[str | None, typer.Option(help="Older than this id: the next page.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 20,
    as_json: Json = False,
) -> None:
    """List pins, forces and freezes, and what strangers changed, which is kept as a pin.

    \b
    trimtab overrides chat
    """
    state = None if ended else "active"
    with root_of(ctx).client() as client:
        found = client.get("/v1/overrides", target=target, state=state, before=before, limit=limit)
    show(found, as_json, _table)


def _set(
    ctx: typer.Context,
    kind: OverrideKind,
    target: str,
    what: dict[str, Any],
    reason: str,
    lasts: str,
    intent: str | None,
    as_json: bool,
) -> None:
    body = {
        "target": target,
        "kind": kind,
        "reason": reason,
        "expires_in_s": span(lasts, field="--for") / MICROS,
        **what,
    }
    if intent is not None:
        body["scope"] = intent
    with root_of(ctx).client() as client:
        made = client.post("/v1/overrides", body)
    show(made, as_json, lambda one: f"{one['id']}: {one['words']} until {when(one['expires_us'])}")


def _setting(knob: str, value: int | None, law: Path | None) -> dict[str, Any]:
    if (value is None) == (law is None):
        raise Rejected("give either a value or --law FILE")
    return {"knob": knob, "setting": {"value": value} if law is None else {"law": read_law(law)}}


def _table(found: Any) -> str:
    rows = [
        (
            one["id"],
            one["target"],
            one["words"],
            "a stranger" if one["adopted"] is not None else one["by"],
            when(one["expires_us"]) if one["state"] == "active" else f"ended: {one['cause']}",
            one["reason"],
        )
        for one in found["items"]
    ]
    head = ["id", "target", "what", "by", "until", "why"]
    more = f"\nmore: --before {found['next']}" if found["next"] else ""
    return table(head, rows, none="no overrides") + more

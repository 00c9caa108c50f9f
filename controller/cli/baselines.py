"""``trimtab baseline``: what a target goes back to, by version; only a person changes it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from controller.cli.root import Json, Reason, root_of, show
from controller.cli.tables import table, when
from signals.errors import Rejected

app = typer.Typer(
    help="The declared settings that everything else is a layer over.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Target = Annotated[str, typer.Argument(help="A target's name.")]


@app.command("show")
def one(ctx: typer.Context, target: Target, as_json: Json = False) -> None:
    """Show the version in force.

    \b
    trimtab baseline show chat
    """
    with root_of(ctx).client() as client:
        now = client.get(f"/v1/targets/{target}/baseline")["now"]
    show(now, as_json, lambda _: "no baseline: boot values" if now is None else _words(now))


@app.command("set")
def put(
    ctx: typer.Context,
    target: Target,
    settings: Annotated[
        list[str], typer.Argument(help="KNOB=VALUE, or KNOB@INTENT=VALUE; all of it, each time.")
    ],
    reason: Reason,
    name: Annotated[str, typer.Option(help="What to call it.")] = "baseline",
    as_json: Json = False,
) -> None:
    """Put the next version in force; what is not named has the engine's boot value.

    Refused where the configuration file declares one: change it there.

    \b
    trimtab baseline set chat active_cap=8 --reason "proven in the last month"
    """
    body = {"name": name, "settings": dict(map(_setting, settings)), "reason": reason}
    with root_of(ctx).client() as client:
        made = client.put(f"/v1/targets/{target}/baseline", body)
    show(made, as_json, _words)


@app.command()
def history(ctx: typer.Context, target: Target, as_json: Json = False) -> None:
    """List every version, the oldest first: who, when, why, what.

    \b
    trimtab baseline history chat
    """
    with root_of(ctx).client() as client:
        found = client.get(f"/v1/targets/{target}/baseline")
    show(found, as_json, _table)


def _setting(text: str) -> tuple[str, dict[str, int]]:
    at, _, value = text.partition("=")
    if not value.removeprefix("-").isdecimal():
        raise Rejected(f"{text!r} is no setting", value=text, allowed="KNOB=VALUE")
    return at, {"value": int(value)}


def _words(one: Any) -> str:
    settings = ", ".join(f"{at} = {said}" for at, said in sorted(one["words"].items()))
    owner = "the configuration file" if one["managed_by"] == "file" else one["by"]
    return (
        f"{one['name']}@{one['version']} ({one['digest']}) since {when(one['from_us'])}"
        f" by {owner}: {settings or 'boot values'}"
    )


def _table(found: Any) -> str:
    rows = [
        (
            f"{one['name']}@{one['version']}",
            when(one["from_us"]),
            one["by"],
            ", ".join(f"{at}={said}" for at, said in sorted(one["words"].items())),
            one["digest"],
            one["reason"],
        )
        for one in found["items"]
    ]
    return table(["version", "since", "by", "settings", "digest", "why"], rows, none="no baseline")

"""``check`` and ``settings``: is this configuration sound, and what could be set."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from controller.cli.root import Json, root_of, show
from controller.cli.tables import table
from controller.config.page import page
from controller.config.tree import Leaf, leaves
from controller.exporting import ExportForm
from controller.rule_loading import load_rules
from controller.settings import Settings
from signals.errors import Rejected

app = typer.Typer(help="What can be set, and what is.", no_args_is_help=True, rich_markup_mode=None)


def add_to(root: typer.Typer) -> None:
    """Put the commands at the top level."""
    root.command()(check)
    root.add_typer(app, name="settings")


def check(ctx: typer.Context, as_json: Json = False) -> None:
    """Say whether the configuration is sound, without starting anything; every problem at once.

    \b
    trimtab --config trimtab.yaml check
    """
    settings = root_of(ctx).settings
    rules = {name: _rules(settings, name) for name in settings.targets}
    show({"targets": list(rules), "rules": rules}, as_json, _sound)


@app.command("list")
def listed(
    match: Annotated[str | None, typer.Argument(help="Only paths that contain this.")] = None,
    as_json: Json = False,
) -> None:
    """List every setting: default, unit, what is allowed, why.

    \b
    trimtab settings list trial
    """
    found = [leaf for leaf in leaves(Settings) if match is None or match in leaf.path]
    show(msgspec.to_builtins(found), as_json, lambda _: _table(found))


@app.command()
def export(
    ctx: typer.Context,
    target: Annotated[str, typer.Argument(help="A target's name.")],
    form: Annotated[ExportForm, typer.Option("--as", help="vllm-flags, or json.")] = "vllm-flags",
    at: Annotated[
        str | None, typer.Option(help="As they were: RFC 3339, or µs since 1970.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print a target's settings as start-up flags of vLLM, or as JSON with their digest.

    What can't be a flag is a comment that says why: laws, intents' own settings.

    \b
    trimtab settings export chat --as vllm-flags
    trimtab settings export chat --as json --at 2026-11-24T03:00:00Z
    """
    with root_of(ctx).client() as client:
        found = client.get(f"/v1/targets/{target}/settings/export", **{"as": form}, at=at)
    show(found, as_json or form == "json", lambda one: one["flags"].rstrip())


@app.command()
def docs() -> None:
    """Print the settings page of the documentation."""
    typer.echo(page(), nl=False)


def _rules(settings: Settings, target: str) -> list[str]:
    """The rules' ids, once all of them compile. Raises ``Rejected`` with the target's path."""
    aim = settings.targets[target]
    try:
        load_rules(aim, settings.metrics)
    except Rejected as error:
        path = f"targets.{target}.{error.field}"
        raise Rejected(
            f"{path}: {error.detail}", field=path, value=error.value, allowed=error.allowed
        ) from error
    return [rule.id for rule in aim.rules]


def _sound(found: Any) -> str:
    told = [f"{name}: {len(rules)} rules" for name, rules in found["rules"].items()]
    return "\n".join(["the configuration is sound", *told])


def _table(found: list[Leaf]) -> str:
    rows = [
        (leaf.path, "required" if leaf.default is None else leaf.default, leaf.allowed, leaf.reason)
        for leaf in found
    ]
    return table(["setting", "default", "allowed", "why"], rows, none="no such setting")

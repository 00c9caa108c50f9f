"""``check`` and ``settings``: is this configuration sound, and what could be set."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from controller.cli.root import Json, root_of, show
from controller.cli.tables import table
from controller.config.page import page
from controller.config.tree import Leaf, leaves
from controller.rules.firing import compile_rules
from controller.settings import Settings
from signals.errors import Rejected

app = typer.Typer(help="What can be set.", no_args_is_help=True, rich_markup_mode=None)


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
def docs() -> None:
    """Print the settings page of the documentation."""
    typer.echo(page(), nl=False)


def _rules(settings: Settings, target: str) -> list[str]:
    """The rules' ids, once all of them compile. Raises ``Rejected`` with the target's path."""
    aim = settings.targets[target]
    try:
        compile_rules(aim.rules, intents=aim.intents, metrics=settings.metrics)
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

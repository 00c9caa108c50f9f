"""``check`` and ``settings``: is this configuration sound, and what could be set."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from controller.cli.root import Json, root_of, show
from controller.cli.tables import table
from controller.config.page import page
from controller.config.problems import BadSettings, Problem
from controller.config.tree import Leaf, leaves
from controller.exporting import ExportForm
from controller.rules.candidates import problems
from controller.settings import Settings

app = typer.Typer(help="What can be set, and what is.", no_args_is_help=True, rich_markup_mode=None)


def add_to(root: typer.Typer) -> None:
    """Put the commands at the top level."""
    root.command()(check)
    root.add_typer(app, name="settings")


def check(ctx: typer.Context, as_json: Json = False) -> None:
    """Say whether the configuration is sound, without starting anything.

    Every setting that is unknown or out of range is told at once. What hangs on others (a ladder
    that does not rise, an intent that nobody declared, a rule's condition) is looked at once they
    are sound. Which knobs there are only the engine knows.

    \b
    trimtab --config trimtab.yaml check
    """
    settings = root_of(ctx).settings
    wrong = [one for name in settings.targets for one in _problems(settings, name)]
    if wrong:
        raise BadSettings(wrong)
    rules = {name: [rule.id for rule in aim.rules] for name, aim in settings.targets.items()}
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


def _problems(settings: Settings, target: str) -> list[Problem]:
    """What is wrong with a target's rules, each with its path in the file."""
    aim = settings.targets[target]
    _, wrong = problems(
        [rule.model_dump(by_alias=True) for rule in aim.rules],
        intents=aim.intents,
        metrics=settings.metrics,
        safer={name: one.safer for name, one in aim.knobs.declared.items()},
        baseline=aim.baseline,
    )
    found = []
    for one in wrong:
        index, _, name = one.field.removeprefix("rules[").partition("].")
        rule = aim.rules[int(index)].model_dump(by_alias=True)
        allowed = "" if one.allowed in one.detail else one.allowed
        path = f"targets.{target}.{one.field}"
        found.append(Problem(path=path, value=rule[name], detail=one.detail, allowed=allowed))
    return found


def _sound(found: Any) -> str:
    told = [f"{name}: {len(rules)} rules" for name, rules in found["rules"].items()]
    return "\n".join(["the configuration is sound", *told])


def _table(found: list[Leaf]) -> str:
    rows = [
        (leaf.path, "required" if leaf.default is None else leaf.default, leaf.allowed, leaf.reason)
        for leaf in found
    ]
    return table(["setting", "default", "allowed", "why"], rows, none="no such setting")

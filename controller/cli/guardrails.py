"""``trimtab guardrails``: the bounds in force, and what a hypothetical change would meet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from controller.cli.policies import setting_of
from controller.cli.root import Json, root_of, show
from controller.cli.tables import table, when

app = typer.Typer(
    help="Bounds on what the loop may do, and tests against them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Target = Annotated[str, typer.Argument(help="A target's name.")]


@app.command("show")
def shown(ctx: typer.Context, target: Target, as_json: Json = False) -> None:
    """Show each knob's bounds, whom each guardrail binds, and what suspends trials now.

    \b
    trimtab guardrails show chat
    """
    with root_of(ctx).client() as client:
        show(client.get(f"/v1/targets/{target}/guardrails"), as_json, _bounds)


@app.command()
def evaluate(
    ctx: typer.Context,
    target: Target,
    knob: Annotated[str, typer.Argument(help="A knob of its engine.")],
    value: Annotated[int | None, typer.Argument(help="The value, unless --law is given.")] = None,
    law: Annotated[
        Path | None, typer.Option(help="A file with a law as YAML or JSON, instead of a value.")
    ] = None,
    preempt: Annotated[bool, typer.Option(help="Lowering a cap preempts; default: drain.")] = False,
    scope: Annotated[str, typer.Option(help="target, or an intent's name.")] = "target",
    origin: Annotated[
        str, typer.Option("--as", help="Who proposes it: person, rule, plant or learner.")
    ] = "person",
    emergency: Annotated[bool, typer.Option(help="As an emergency rule would.")] = False,
    as_json: Json = False,
) -> None:
    """Test a change without making it: guardrails, risk, approvals needed, resulting settings.

    Some guardrails are asked twice: of a proposal, which they deny, and of a start, which waits.
    `exempt`: it does not bind whoever proposes. docs/policies.md says what each one asks.

    \b
    trimtab guardrails evaluate chat active_cap 64
    trimtab guardrails evaluate chat active_cap 64 --as rule
    """
    body = {
        "target": target,
        "knob": knob,
        "scope": scope,
        "setting": setting_of(value, law, preempt=preempt),
        "origin": origin,
        "emergency": emergency,
    }
    with root_of(ctx).client() as client:
        show(client.post("/v1/guardrails/evaluate", body), as_json, _evaluation)


def _evaluation(found: Any) -> str:
    begins = {"now": "it could begin now", "waits": "it would wait", "never": "it is denied"}
    why = ", ".join(found["risk"]["why"]) or "nothing counts against it"
    people = "one person" if found["approvals_needed"] == 1 else "two people"
    rows = [
        (
            one["guardrail"],
            f"a {one['at']}",
            one["outcome"],
            one["words"] or _figures(one["figures"]),
        )
        for one in found["guardrails"]
    ]
    told = [
        f"{found['words']}: {begins[found['begins']]}",
        f"risk      {found['risk']['risk']} ({why}); needs {people}",
        *(f"would be  {place} {words}" for place, words in found["changes"].items()),
        "",
        table(["guardrail", "asked of", "answer", "why"], rows, none="no guardrails"),
    ]
    return "\n".join(told)


def _bounds(found: Any) -> str:
    rows = [
        (
            name,
            knob["mode"],
            f"{knob['low']}..{knob['high']}",
            " ".join(map(str, knob["ladder"])),
            _figures(knob["figures"]),
        )
        for name, knob in found["knobs"].items()
    ]
    rails = [(r["name"], r["at"], ", ".join(r["binds"]), r["words"]) for r in found["rails"]]
    told = [
        table(["knob", "mode", "bounds", "ladder", "limits"], rows, none="no knobs"),
        "",
        table(["guardrail", "at", "binds", "what it asks"], rails, none="no guardrails"),
        "",
        f"freeze windows: {'; '.join(found['freeze_windows']) or 'none'}",
    ]
    if found["frozen_until_us"] is not None:
        told.append(f"frozen until {when(found['frozen_until_us'])}")
    told += [f"change: {c['id']} {c['kind']} {c['words']}" for c in found["changes"]]
    return "\n".join(told)


def _figures(figures: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in figures.items())

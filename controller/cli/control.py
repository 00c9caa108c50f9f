"""``hold``, ``release``, ``kill``, ``mode``: the operator always wins."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import typer

from controller.cli.root import UNAVAILABLE, Json, Reason, fail, root_of, show
from controller.cli.tables import table
from policies.policy import Mode
from signals.errors import Rejected

Verb = Literal["hold", "kill", "release"]

Direct = Annotated[
    bool,
    typer.Option(
        "--direct", help="Without the control plane: latch and engines, by keys/control.key."
    ),
]
All = Annotated[bool, typer.Option("--all", help="Every target, instead of one.")]
Target = Annotated[str | None, typer.Argument(help="A target's name, unless --all.")]


def add_to(app: typer.Typer) -> None:
    """Put the verbs at the top level."""
    for verb in (hold, release, kill, mode):
        app.command()(verb)


def hold(
    ctx: typer.Context,
    reason: Reason,
    target: Target = None,
    every: All = False,
    direct: Direct = False,
    as_json: Json = False,
) -> None:
    """Freeze a target: laws stand still, trials pause, expiries are suspended.

    Exits 3 when a replica could not be read back; it is listed.

    \b
    trimtab hold chat --reason "deploying a new model"
    trimtab hold --all --reason "incident 4711"
    """
    _act(ctx, "hold", target, every, direct, reason, as_json)


def release(
    ctx: typer.Context,
    reason: Reason,
    target: Target = None,
    every: All = False,
    direct: Direct = False,
    as_json: Json = False,
) -> None:
    """End a hold or a kill; the loop goes on from what was kept.

    \b
    trimtab release chat --reason "over"
    """
    _act(ctx, "release", target, every, direct, reason, as_json)


def kill(
    ctx: typer.Context,
    reason: Reason,
    target: Target = None,
    every: All = False,
    direct: Direct = False,
    as_json: Json = False,
) -> None:
    """Stop the loop on a target and go to what its `on_kill` declares.

    Exits 3 when a replica could not be read back; it is listed.

    \b
    trimtab kill chat --reason "answers look wrong"
    trimtab kill --all --direct --reason "the control plane is down"
    """
    _act(ctx, "kill", target, every, direct, reason, as_json)


def mode(
    ctx: typer.Context,
    target: Annotated[str, typer.Argument(help="A target's name.")],
    knob: Annotated[str, typer.Argument(help="A knob of its engine.")],
    to: Annotated[str, typer.Argument(help="observe, approve or auto.")],
    as_json: Json = False,
) -> None:
    """Say how far the loop may go with a knob: observe, approve (a person says yes), or auto.

    \b
    trimtab mode chat active_cap approve
    """
    with root_of(ctx).client() as client:
        body: dict[str, Mode | str] = {"mode": to}
        set_to = client.patch(f"/v1/targets/{target}/knobs/{knob}", body)
    show(set_to, as_json, lambda done: f"{done['target']}.{done['knob']} is on {done['mode']}")


def _act(
    ctx: typer.Context,
    verb: Verb,
    target: str | None,
    every: bool,
    direct: bool,
    reason: str,
    as_json: bool,
) -> None:
    if (target is None) != every:
        raise Rejected("name one target, or give --all", field="target")
    told = _direct(ctx, verb, target, reason) if direct else _post(ctx, verb, target, reason)
    shown = {"items": told} if every else told[0]
    show(shown, as_json, lambda _: "\n\n".join(_words(verb, one) for one in told) or "no targets")
    missed = [one["replica"] for report in told for one in report["replicas"] if not one["ok"]]
    if missed:
        raise fail(f"{verb} did not reach {', '.join(missed)}", UNAVAILABLE)


def _post(ctx: typer.Context, verb: Verb, target: str | None, reason: str) -> list[Any]:
    with root_of(ctx).client() as client:
        if target is not None:
            return [client.post(f"/v1/targets/{target}/{verb}", {"reason": reason})]
        items: list[Any] = client.post(f"/v1/{verb}", {"reason": reason})["items"]
        return items


def _direct(ctx: typer.Context, verb: Verb, target: str | None, reason: str) -> list[Any]:
    from controller.break_glass import act

    settings = root_of(ctx).settings
    targets = sorted(settings.targets) if target is None else [target]
    found: list[Any] = msgspec.to_builtins(act(settings, targets, verb, reason))
    return found


def _words(verb: str, report: Any) -> str:
    rows = [
        (r["replica"], r["url"], "as wished" if r["ok"] else r["detail"], f"{r['took_ms']} ms")
        for r in report["replicas"]
    ]
    shown = table(["replica", "at", "read back", "took"], rows, none="no replicas")
    recorded = "" if report["recorded"] else "\nnot recorded yet: `serve` does that when it can"
    return f"{verb} {report['target']} in {report['took_ms']} ms\n{shown}{recorded}"

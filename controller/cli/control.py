"""``hold``, ``release``, ``kill``, ``mode``: the operator always wins."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import typer

from controller.cli.root import UNAVAILABLE, Json, Reason, fail, root_of, show
from controller.cli.tables import table
from policies.policy import Mode

Verb = Literal["hold", "kill"]

Direct = Annotated[
    bool,
    typer.Option(
        "--direct", help="Without the control plane: latch and engines, by keys/control.key."
    ),
]
Target = Annotated[str, typer.Argument(help="A target's name.")]


def add_to(app: typer.Typer) -> None:
    """Put the verbs at the top level."""
    for verb in (hold, release, kill, mode):
        app.command()(verb)


def hold(
    ctx: typer.Context,
    target: Target,
    reason: Reason,
    direct: Direct = False,
    as_json: Json = False,
) -> None:
    """Freeze a target: laws stand still, trials pause, expiries are suspended.

    Exits 3 when a replica could not be read back; it is listed.

    \b
    trimtab hold chat --reason "deploying a new model"
    """
    report = _direct(ctx, target, "hold", reason) if direct else _post(ctx, target, "hold", reason)
    _tell("hold", report, as_json)


def release(ctx: typer.Context, target: Target, reason: Reason, as_json: Json = False) -> None:
    """End a hold or a kill; the loop goes on from what was kept."""
    _tell("release", _post(ctx, target, "release", reason), as_json)


def kill(
    ctx: typer.Context,
    target: Target,
    reason: Reason,
    direct: Direct = False,
    as_json: Json = False,
) -> None:
    """Stop the loop on a target and go to what its `on_kill` declares.

    Exits 3 when a replica could not be read back; it is listed.

    \b
    trimtab kill chat --reason "answers look wrong"
    trimtab kill chat --direct --reason "the control plane is down"
    """
    report = _direct(ctx, target, "kill", reason) if direct else _post(ctx, target, "kill", reason)
    _tell("kill", report, as_json)


def mode(
    ctx: typer.Context,
    target: Target,
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


def _post(ctx: typer.Context, target: str, verb: str, reason: str) -> Any:
    with root_of(ctx).client() as client:
        return client.post(f"/v1/targets/{target}/{verb}", {"reason": reason})


def _direct(ctx: typer.Context, target: str, verb: Verb, reason: str) -> Any:
    from controller.break_glass import act

    return msgspec.to_builtins(act(root_of(ctx).settings, target, verb, reason))


def _tell(verb: str, report: Any, as_json: bool) -> None:
    show(report, as_json, lambda done: _words(verb, done))
    missed = [one["replica"] for one in report["replicas"] if not one["ok"]]
    if missed:
        raise fail(f"{verb} did not reach {', '.join(missed)}", UNAVAILABLE)


def _words(verb: str, report: Any) -> str:
    rows = [
        (r["replica"], r["url"], "as wished" if r["ok"] else r["detail"], f"{r['took_ms']} ms")
        for r in report["replicas"]
    ]
    shown = table(["replica", "at", "read back", "took"], rows, none="no replicas")
    recorded = "" if report["recorded"] else "\nnot recorded yet: the store can't be written now"
    return f"{verb} {report['target']} in {report['took_ms']} ms\n{shown}{recorded}"

"""``trimtab policies``: what was proposed, and what became of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from controller.cli.root import Json, Reason, root_of, show
from controller.cli.tables import table, when
from signals.errors import Rejected

app = typer.Typer(
    help="Proposals, approvals, reverts.", no_args_is_help=True, rich_markup_mode=None
)

PolicyId = Annotated[str, typer.Argument(help="A policy's id, e.g. from `trimtab policies list`.")]


@app.command("list")
def listed(
    ctx: typer.Context,
    target: Annotated[str | None, typer.Option(help="Only this target's.")] = None,
    state: Annotated[list[str] | None, typer.Option(help="Only in this state; repeatable.")] = None,
    before: Annotated[str | None, typer.Option(help="Older than this id: the next page.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 20,
    as_json: Json = False,
) -> None:
    """List policies, newest first.

    \b
    trimtab policies list --target chat --state pending
    """
    with root_of(ctx).client() as client:
        found = client.get(
            "/v1/policies", target=target, state=state or None, before=before, limit=limit
        )
    show(found, as_json, _table)


@app.command("show")
def one(ctx: typer.Context, policy_id: PolicyId, as_json: Json = False) -> None:
    """Show one policy: the change, the reason, the evidence, who did what, the verdict."""
    with root_of(ctx).client() as client:
        show(client.get(f"/v1/policies/{policy_id}"), as_json, _words)


@app.command()
def propose(
    ctx: typer.Context,
    target: Annotated[str, typer.Argument(help="A target's name.")],
    knob: Annotated[str, typer.Argument(help="A knob of its engine.")],
    reason: Reason,
    value: Annotated[int | None, typer.Argument(help="The value, unless --law is given.")] = None,
    law: Annotated[
        Path | None, typer.Option(help="A file with a law as YAML or JSON, instead of a value.")
    ] = None,
    preempt: Annotated[bool, typer.Option(help="Lowering a cap preempts; default: drain.")] = False,
    as_json: Json = False,
) -> None:
    """Propose a change by hand; somebody else approves it.

    \b
    trimtab policies propose chat active_cap 16 --reason "more batch at night"
    """
    if (value is None) == (law is None):
        raise Rejected("give a value or --law FILE, not both")
    setting: dict[str, Any] = {"shrink": "preempt" if preempt else "drain"}
    setting |= {"value": value} if law is None else {"law": _law(law)}
    body = {"target": target, "knob": knob, "setting": setting, "reason": reason}
    with root_of(ctx).client() as client:
        show(client.post("/v1/policies", body), as_json, _words)


@app.command()
def approve(
    ctx: typer.Context,
    policy_id: PolicyId,
    digest: Annotated[
        str | None,
        typer.Option(help="The digest you were shown; without it the policy is shown and asked."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Approve a policy, exactly as it was shown.

    \b
    trimtab policies approve POLICY_ID --digest 3f1c…
    """
    with root_of(ctx).client() as client:
        if digest is None:
            found = client.get(f"/v1/policies/{policy_id}")
            typer.echo(_words(found))
            typer.confirm("Approve exactly this?", abort=True)
            digest = found["shown_digest"]
        moved = client.post(f"/v1/policies/{policy_id}/approve", {"shown_digest": digest})
    show(moved, as_json, _line)


@app.command()
def reject(ctx: typer.Context, policy_id: PolicyId, reason: Reason, as_json: Json = False) -> None:
    """Say no to a proposal."""
    _act(ctx, policy_id, "reject", reason, as_json)


@app.command()
def revert(ctx: typer.Context, policy_id: PolicyId, reason: Reason, as_json: Json = False) -> None:
    """Take a policy back, on trial or kept; reverted once the engine was seen without it."""
    _act(ctx, policy_id, "revert", reason, as_json)


@app.command()
def pause(ctx: typer.Context, policy_id: PolicyId, reason: Reason, as_json: Json = False) -> None:
    """Stop a trial's clock; the engine goes to the baseline meanwhile."""
    _act(ctx, policy_id, "pause", reason, as_json)


@app.command()
def resume(ctx: typer.Context, policy_id: PolicyId, as_json: Json = False) -> None:
    """Go on with a paused trial, in a fresh unit."""
    with root_of(ctx).client() as client:
        show(client.post(f"/v1/policies/{policy_id}/resume"), as_json, _line)


def _act(ctx: typer.Context, policy_id: str, verb: str, reason: str, as_json: bool) -> None:
    with root_of(ctx).client() as client:
        moved = client.post(f"/v1/policies/{policy_id}/{verb}", {"reason": reason})
    show(moved, as_json, _line)


def _law(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text("utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise Rejected(f"{path} holds no law: {error}") from error


def _table(found: Any) -> str:
    rows = [
        (p["id"], p["state"], p["mode"], p["words"], p["origin"]["name"], when(p["updated_us"]))
        for p in found["items"]
    ]
    head = ["id", "state", "mode", "change", "from", "since"]
    more = f"\nmore: --before {found['next']}" if found["next"] else ""
    return table(head, rows, none="no policies") + more


def _line(policy: Any) -> str:
    return f"{policy['id']} is {policy['state']}: {policy['words']}"


def _words(policy: Any) -> str:
    told = [
        _line(policy),
        f"target    {policy['target']}",
        f"from      {policy['origin']['kind']} {policy['origin']['name']}",
        f"reason    {policy['reason']}",
        f"mode      {policy['mode']}; risk {policy['risk']}",
        f"digest    {policy['shown_digest']}",
    ]
    told += [f"evidence  {name} = {value:.4g}" for name, value in policy["evidence"].items()]
    told += [f"guard     {g['metric']} no worse by {g['margin']:g}" for g in policy["guards"]]
    for name in ("verdict", "cause", "trial", "decided_by"):
        if policy.get(name) is not None:
            told.append(f"{name:<9} {policy[name]}")
    for entry in policy.get("history", []):
        told.append(f"{when(entry['at_us'])}  {entry['action']} by {entry['actor']}")
    return "\n".join(told)

"""``trimtab policies``: what was proposed, and what became of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from controller.cli.root import Json, Reason, root_of, show
from controller.cli.tables import table, when
from controller.cli.tailing import moment
from controller.keys import wall_us
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
    knob: Annotated[str | None, typer.Option(help="Only of this knob.")] = None,
    scope: Annotated[str | None, typer.Option(help="target, or an intent's name.")] = None,
    origin: Annotated[
        str | None, typer.Option(help="rule, plant, learner or person: what proposed it.")
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", help="Who proposed it: a key's id, or e.g. rule:idle.")
    ] = None,
    verdict: Annotated[
        str | None, typer.Option(help="IMPROVED, HARMED, INCONCLUSIVE or NO_DATA.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--from", help="Proposed since: 10m, 2h, 1d ago, or RFC 3339.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", help="Proposed before; as --from.")
    ] = None,
    before: Annotated[str | None, typer.Option(help="Older than this id: the next page.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 20,
    as_json: Json = False,
) -> None:
    """List policies, newest first.

    \b
    trimtab policies list --target chat --state pending
    trimtab policies list --verdict HARMED --from 1d
    """
    query = {
        "target": target,
        "state": state or None,
        "knob": knob,
        "scope": scope,
        "origin": origin,
        "proposed_by": by,
        "verdict": verdict,
        "from": None if since is None else moment(since, wall_us(), field="--from"),
        "to": None if until is None else moment(until, wall_us(), field="--until"),
        "before": before,
        "limit": limit,
    }
    with root_of(ctx).client() as client:
        show(client.get("/v1/policies", **query), as_json, _table)


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
    scope: Annotated[str, typer.Option(help="target, or an intent's name.")] = "target",
    supersede: Annotated[
        bool, typer.Option(help="What waits for a person on the same place gives way to it.")
    ] = False,
    guard: Annotated[
        list[str] | None,
        typer.Option(
            help="METRIC=MARGIN of users' feedback: kept provisionally until it is no worse by"
            " so much, in the metric's unit; repeatable."
        ),
    ] = None,
    primary: Annotated[
        str | None,
        typer.Option(
            help="METRIC=DIFFERENCE: tried by this metric of users' feedback instead of utility;"
            " only where sessions are split."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Propose a change by hand; somebody else approves it (two people where the risk is high).

    How many sessions or requests --guard and --primary need, and how long that takes, is shown by
    `trimtab policies show` before anybody approves.

    \b
    trimtab policies propose chat active_cap 16 --reason "more batch at night"
    trimtab policies propose chat active_cap 16 --guard answer_copied=0.02 -m "as above"
    trimtab guardrails evaluate chat active_cap 16    # what it would meet, without proposing it
    """
    body = {
        "target": target,
        "knob": knob,
        "scope": scope,
        "setting": setting_of(value, law, preempt=preempt),
        "reason": reason,
        "supersede": supersede,
        "guards": dict(margin_of(one) for one in guard or ()),
    }
    if primary is not None:
        metric, effect = margin_of(primary)
        body["primary"] = {"metric": metric, "effect": effect}
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
    """Approve a policy, exactly as it was shown. High risk needs two people.

    Who proposed it may approve it only where it lowers risk; the control report shows that.

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
def revert(
    ctx: typer.Context,
    policy_id: PolicyId,
    reason: Reason,
    with_newer: Annotated[
        bool, typer.Option(help="Also kept policies that lie above it on the same place.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Take a policy back, on trial or kept; reverted once the engine was seen without it.

    A newer layer on the same place (a kept policy, a pin, a force) is named, and nothing is done.
    """
    with root_of(ctx).client() as client:
        body = {"reason": reason, "with_newer": with_newer}
        show(client.post(f"/v1/policies/{policy_id}/revert", body), as_json, _line)


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


def setting_of(value: int | None, law: Path | None, *, preempt: bool) -> dict[str, Any]:
    """A setting as REST takes it. Raises ``Rejected``."""
    if (value is None) == (law is None):
        raise Rejected(
            "give either a value or --law FILE",
            field="value",
            value=value,
            allowed="a value of the knob's ladder, or --law with a file; not both",
        )
    setting: dict[str, Any] = {"shrink": "preempt" if preempt else "drain"}
    return setting | ({"value": value} if law is None else {"law": read_law(law)})


def margin_of(text: str) -> tuple[str, float]:
    """``converted=0.02`` as a metric and a figure. Raises ``Rejected``.

    >>> margin_of("converted=0.02")
    ('converted', 0.02)
    """
    metric, _, figure = text.partition("=")
    try:
        return metric, float(figure)
    except ValueError as error:
        raise Rejected(f"{text!r} is not METRIC=NUMBER", value=text) from error


def read_law(path: Path) -> Any:
    """A law as it is in a file. Raises ``Rejected``."""
    try:
        return yaml.safe_load(path.read_text("utf-8"))
    except (OSError, yaml.YAMLError) as error:
        why = getattr(error, "strerror", None) or error
        raise Rejected(f"{path} holds no law: {why}", field="--law") from error


def _table(found: Any) -> str:
    rows = [
        (p["id"], p["state"], p["risk"], p["words"], p["origin"]["name"], when(p["updated_us"]))
        for p in found["items"]
    ]
    head = ["id", "state", "risk", "change", "from", "since"]
    more = f"\nmore: --before {found['next']}" if found["next"] else ""
    return table(head, rows, none="no policies") + more


def _line(policy: Any) -> str:
    needs = f"; it needs {policy['needs']}" if policy["needs"] else ""
    return f"{policy['id']} is {policy['state']}: {policy['words']}{needs}"


def _because(facts: list[str]) -> str:
    return f": {', '.join(facts)}" if facts else ""


def _effect(expected: Any) -> str:
    if expected is None:
        return "not predicted; the trial will tell"
    interval = f"{expected['low']:+.3g} to {expected['high']:+.3g}"
    return f"{expected['metric']} {expected['estimate']:+.3g} ({interval}), {expected['source']}"


def _yes(one: Any) -> str:
    solo = ", alone: it lowers risk" if one["solo"] else ""
    return f"by {one['name'] or one['by']} ({one['role']}{solo}) at {when(one['at_us'])}"


def _words(policy: Any) -> str:
    told = [
        _line(policy),
        f"target    {policy['target']}",
        f"from      {' '.join(policy['origin'].values())}",
        f"reason    {policy['reason']}",
        f"mode      {policy['mode']}",
        f"risk      {policy['risk']}{_because(policy['risk_why'])}",
        f"expected  {_effect(policy['expected'])}",
        f"digest    {policy['shown_digest']}",
    ]
    told += [f"approved  {_yes(one)}" for one in policy["approvals"]]
    told += [f"evidence  {name} = {value:.4g}" for name, value in policy["evidence"].items()]
    told += [f"guard     {g['metric']} no worse by {g['margin']:g}" for g in policy["guards"]]
    if policy["primary"] is not None:
        primary = policy["primary"]
        told.append(f"tried by  {primary['metric']}, a difference of {primary['margin']:g}")
    told += [f"needs     {line}" for line in policy["sized"]]
    if policy["provisional"]:
        by, when_ = ", ".join(policy["confirmed_by"]), when(policy["confirm_us"])
        told.append(f"kept      provisionally, to be confirmed by {by} at {when_}")
    elif policy["confirmed_by"]:
        told.append(f"confirmed by {', '.join(policy['confirmed_by'])}")
    for name in ("verdict", "cause", "trial", "decided_by"):
        if policy.get(name) is not None:
            told.append(f"{name:<9} {policy[name]}")
    for name, label in (("expires_us", "expires"), ("review_us", "review")):
        if policy.get(name) is not None:
            told.append(f"{label:<9} {when(policy[name])}")
    for entry in policy.get("history", []):
        told.append(f"{when(entry['at_us'])}  {entry['action']} by {entry['actor']}")
    return "\n".join(told)

"""``trimtab why REQUEST_ID``: one request, and why the engine was set as it was."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from controller.cli.root import Json, root_of, show
from controller.cli.tables import ms, table, when


def add_to(app: typer.Typer) -> None:
    """Put the commands at the top level."""
    app.command()(why)
    app.command()(requests)


def why(
    ctx: typer.Context,
    request_id: Annotated[str, typer.Argument(help="As in the answer's `id`.")],
    as_json: Json = False,
) -> None:
    """Say what happened to a request, under which settings, and why those were in force."""
    with root_of(ctx).client() as client:
        show(client.get(f"/v1/requests/{request_id}"), as_json, _words)


def requests(
    ctx: typer.Context,
    target: Annotated[str, typer.Argument(help="A target's name.")],
    bad: Annotated[bool, typer.Option("--bad", help="Only those that missed their SLO.")] = False,
    intent: Annotated[str | None, typer.Option(help="Only this intent's.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 20,
    as_json: Json = False,
) -> None:
    """List a target's latest requests.

    \b
    trimtab requests chat --bad --intent live
    """
    with root_of(ctx).client() as client:
        found = client.get(
            "/v1/requests", target=target, good=False if bad else None, intent=intent, limit=limit
        )
    show(found, as_json, _table)


def _table(found: Any) -> str:
    rows = [
        (
            r["request_id"],
            when(r["arrival_us"]),
            r["intent"],
            r["status"],
            _good(r["good"]),
            ms(r["ttft_us"]),
            ms(r["tpot_us"]),
            r["output_tokens"],
        )
        for r in found["items"]
    ]
    head = ["request", "arrived", "intent", "status", "slo", "ttft", "tpot", "tokens"]
    return table(head, rows, none="no requests")


def _words(found: Any) -> str:
    row, stamp = found["request"], found["stamp"]
    times = (
        f"times     queued {ms(row['queue_us'])}, first token {ms(row['ttft_us'])},"
        f" per token {ms(row['tpot_us'])}, {row['output_tokens']} tokens"
    )
    settings = (
        f"settings  {stamp['digest']} (version {stamp['version']} of {stamp['replica']},"
        f" incarnation {stamp['incarnation']})"
    )
    told = [
        f"{row['request_id']} ({row['intent']}, {row['class_']}) {_good(row['good'])}",
        f"arrived   {when(row['arrival_us'])}, status {row['status'] or 'running'}",
        times,
        settings,
        *(_policy(one) for one in found["policies"]),
    ]
    if not found["policies"]:
        told.append("policies  none: the baseline was in force")
    if found["trial"] is not None:
        trial = found["trial"]
        told.append(f"trial     {trial['id']}, block {trial['block']}, arm {trial['arm']}")
    told += [_outcome(one) for one in found["outcomes"]]
    return "\n".join(told)


def _outcome(outcome: Any) -> str:
    """What a user or a model said, who brought it, and how it was read."""
    version = f" (version {outcome['definition']} of the metric)" if outcome["definition"] else ""
    source = outcome["producer"] if outcome["model"] is None else f"model {outcome['model']}"
    said = f"{outcome['metric']} = {outcome['value']:g} from {source}"
    return f"outcome   {said} at {when(outcome['time_us'])}{version}"


def _policy(policy: Any) -> str:
    if not policy["known"]:
        return f"policy    {policy['id']}, which this controller does not know"
    decided = [entry for entry in policy["history"] if entry["action"] == "policy.approved"]
    by = f", approved by {decided[0]['actor']} at {when(decided[0]['at_us'])}" if decided else ""
    return f"policy    {policy['id']}: {policy['words']}{by}; reason: {policy['reason']}"


def _good(good: bool | None) -> str:
    return {True: "met its SLO", False: "missed its SLO", None: "not judged yet"}[good]

"""``trimtab why REQUEST_ID``: one request, and why the engine was set as it was."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from controller.cli.root import Json, root_of, show
from controller.cli.settings import unknown
from controller.cli.tables import ms, table, when

MOST = 20
"""Entries that are listed."""


def add_to(app: typer.Typer) -> None:
    """Put the commands at the top level."""
    app.command()(why)
    app.command()(requests)


def why(
    ctx: typer.Context,
    request_id: Annotated[str, typer.Argument(help="As in the answer's `id`.")],
    as_json: Json = False,
) -> None:
    """Say what happened to a request, under which settings, and why those were in force.

    Each policy, override, baseline and trial that touched it, with who approved it, on which
    evidence, and the audit entries that prove it. Of a request whose row is forgotten it says what
    was in force when it arrived; where nobody can say, it says so.

    \b
    trimtab why chat.018bcfe5-687b-774b-8000-000000000000
    """
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
    told = _request(found) if found["request"] is not None else _forgotten(found)
    for one in found["met"]["replicas"]:
        told += _in_force(one)
    touched = found["met"]["touched"]
    told += [line for one in touched for line in _touch(one)]
    if not any(one["kind"] in ("policy", "override", "other") for one in touched):
        told.append("policies  none: the baseline was in force")
    if found["trial"] is not None:
        trial = found["trial"]
        told.append(f"trial     {trial['id']}, block {trial['block']}, arm {trial['arm']}")
    told += [_outcome(one) for one in found["outcomes"]]
    entries = sorted(_entries(found["met"]))
    if entries:
        told.append(f"prove it  trimtab audit prove {entries[-1]}  (entries {_listed(entries)})")
    return "\n".join(told)


def _request(found: Any) -> list[str]:
    row, stamp = found["request"], found["stamp"]
    times = (
        f"times     queued {ms(row['queue_us'])}, first token {ms(row['ttft_us'])},"
        f" per token {ms(row['tpot_us'])}, {row['output_tokens']} tokens"
    )
    settings = (
        f"settings  {stamp['digest']} (version {stamp['version']} of {stamp['replica']},"
        f" incarnation {stamp['incarnation']})"
    )
    return [
        f"{row['request_id']} ({row['intent']}, {row['class_']}) {_good(row['good'])}",
        f"arrived   {when(row['arrival_us'])}, status {row['status'] or 'running'}",
        times,
        settings,
    ]


def _forgotten(found: Any) -> list[str]:
    return [
        f"{found['id']}: its row is forgotten, and its stamp with it",
        f"arrived   {when(found['met']['at_us'])}, as its id says; what each replica had then:",
    ]


def _in_force(one: Any) -> list[str]:
    if not one["known"]:
        return [f"in force  {one['replica']}: {unknown(one)}"]
    until = "now" if one["until_us"] is None else when(one["until_us"])
    values = ", ".join(f"{p['place']} {p['words']}" for p in one["places"])
    span = f"{when(one['from_us'])} – {until}"
    return [f"in force  {values}; {one['replica']}, {span}, audit entry {one['entry']}"]


def _touch(one: Any) -> list[str]:
    """What it is, why it was, who said yes, what came of it, and where that is written."""
    kind = f"{one['kind']:<9}"
    if not one["known"]:
        return [f"{kind} {one['id']}, {one['words']}"]
    body = one["body"] or {}
    told = [f"{kind} {one['id']}: {one['words']}"]
    if "reason" in body:
        told[0] += f"; reason: {body['reason']}"
    if body.get("evidence"):
        figures = ", ".join(f"{name} {value:.4g}" for name, value in body["evidence"].items())
        told.append(f"          evidence: {figures}")
    if body.get("verdict") or (body.get("ruling") or {}).get("words"):
        told.append(f"          verdict: {body.get('verdict') or body['ruling']['words']}")
    told += [
        f"          {when(entry['at_us'])}  {entry['action'].partition('.')[2]} by {entry['actor']}"
        f" (entry {entry['index']})"
        for entry in one["entries"]
    ]
    return told


def _entries(met: Any) -> set[int]:
    """Of the settings that were observed, and of everything that touched the request."""
    observed = {one["entry"] for one in met["replicas"] if one["entry"] is not None}
    return observed | {entry["index"] for one in met["touched"] for entry in one["entries"]}


def _listed(entries: list[int]) -> str:
    shown = ", ".join(map(str, entries[:MOST]))
    return f"{shown}, …" if len(entries) > MOST else shown


def _outcome(outcome: Any) -> str:
    """What a user or a model said, who brought it, and how it was read."""
    version = f" (version {outcome['definition']} of the metric)" if outcome["definition"] else ""
    source = outcome["producer"] if outcome["model"] is None else f"model {outcome['model']}"
    said = f"{outcome['metric']} = {outcome['value']:g} from {source}"
    return f"outcome   {said} at {when(outcome['time_us'])}{version}"


def _good(good: bool | None) -> str:
    return {True: "met its SLO", False: "missed its SLO", None: "not judged yet"}[good]

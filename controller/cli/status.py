"""``trimtab status``: what each knob has and should have, what is on trial, how intents fare."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from controller.cli import since_then, trials
from controller.cli.asking import TIMES
from controller.cli.root import Json, root_of, show
from controller.cli.tables import figure, share, table, when
from signals.errors import Rejected

CONTROLS = {"killed": "KILLED", "hold": "HELD", "detached": "DETACHED"}


def add_to(app: typer.Typer) -> None:
    """Put the command at the top level."""
    app.command()(status)


def status(
    ctx: typer.Context,
    target: Annotated[str | None, typer.Argument(help="Without it: every target.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", help=f"Was it Trimtab? What changed since: {TIMES}.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show where a target stands: knobs, trial, latest verdicts, attainment, replicas.

    With --since: whether any setting changed since then (yes, no or unknown), what and by whom, and
    how attainment was then and is now.

    \b
    trimtab status chat
    trimtab status chat --since 30m
    """
    if since is not None:
        if target is None:
            raise Rejected("name a target: --since is of one", field="TARGET")
        with root_of(ctx).client() as client:
            found_since = since_then.look(client, target, since)
        show(found_since, as_json, since_then.words)
        return
    with root_of(ctx).client() as client:
        listed = [line["name"] for line in client.get("/v1/targets")["items"]]
        names = [target] if target is not None else listed
        found = [client.get(f"/v1/targets/{name}") for name in names]
    shown = found[0] if target is not None else {"items": found}
    show(shown, as_json, lambda _: "\n\n".join(map(_words, found)) or "no targets")


def _words(found: Any) -> str:
    parts = [
        f"{found['name']}: maximise {found['maximize']}{_control(found['control'])}",
        knobs(found["knobs"], held=found["control"]["hold"]),
        _intents(found["attainment"]),
        _trial(found["trial"]),
        *_budget(found["budget"]),
        f"worth    {found['worth']}",
        _drift(found["drift"]["alarm"]),
        _wall(found["wall"]),
        *(f"verdict  {_verdict(one)}" for one in found["verdicts"]),
        *(f"pending  {p['id']}: {p['words']} ({p['reason']})" for p in found["pending"]),
        *(f"replica  {_replica(one)}" for one in found["replicas"]),
        f"features up to {when(found['watermark_us'] or None)}",
    ]
    return "\n".join(part for part in parts if part)


def _control(control: Any) -> str:
    what = next((word for name, word in CONTROLS.items() if control[name]), None)
    if what is None:
        return ""
    return f"; {what} by {control['actor']} since {when(control['since_us'])}: {control['reason']}"


def knobs(knobs: Any, *, held: bool) -> str:
    """A line for each knob, and for each place of it that has a setting of its own."""
    rows = [
        (
            knob["knob"],
            knob["mode"] + (" (file)" if knob["managed_by"] else ""),
            _desired(knob, held=held),
            _observed(knob),
            (knob["observed"] or {}).get("policy_id"),
        )
        for knob in knobs
    ]
    rows = [row for knob, own in zip(knobs, rows, strict=True) for row in (own, *_places(knob))]
    return table(["knob", "mode", "desired", "observed", "policy"], rows, none="no replica answers")


def _places(knob: Any) -> list[tuple[Any, ...]]:
    """A line for each intent with a setting of its own, and for what some sessions have instead."""
    rows: list[tuple[Any, ...]] = []
    for one in knob.get("intents", ()):
        at = knob["knob"] if one["scope"] == "target" else f"{knob['knob']}@{one['scope']}"
        for name, wished, seen in (
            (at, one["desired"], one["observed"]),
            (f"{at} (candidate)", one["candidate"], one["candidate_observed"]),
        ):
            if wished is not None or seen is not None:
                words = "as all have" if wished is None else wished["words"]
                value = "-" if seen is None else f"{seen['value']} {knob['unit']}"
                rows.append((name, "", words, value, (seen or {}).get("policy_id")))
    return rows


def _desired(knob: Any, *, held: bool) -> str:
    """What it should have; under a hold it keeps what it has, and goes there at the release."""
    words = str(knob["desired"]["words"]) if knob["desired"] else "as booted"
    return f"{words} once released" if held else words


def _observed(knob: Any) -> str:
    seen = knob["observed"]
    if seen is None:
        return "-"
    law = " by law" if seen.get("law") else ""
    draining = ", draining" if seen.get("draining") else ""
    over = "".join(f", {_override(one)}" for one in knob["overrides"])
    return f"{seen['value']} {knob['unit']}{law}{draining}{over}"


def _override(one: Any) -> str:
    """``PIN until …``; a stranger's change, which is kept as a pin, is FOREIGN."""
    what = one["kind"].upper() if one["adopted"] is None else "FOREIGN"
    return f"{what} until {when(one['expires_us'])}"


def _intents(attainment: Any) -> str:
    rows = [
        (
            name,
            share(one["now"]),
            share(one["wanted"]),
            figure(one["arrivals_per_s"], "/s"),
            figure(one["tokens_per_s"], "/s"),
            figure(one["waiting"]),
        )
        for name, one in attainment.items()
    ]
    head = ["intent", "attainment", "wanted", "arrivals", "tokens", "waiting"]
    return table(head, rows, none="")


def _trial(trial: Any) -> str:
    if trial is None:
        return "trial    none"
    state = f"{trial['state']}{trials.paused_by(trial)}"
    return f"trial    {trial['id']} ({state}) {trial['hypothesis']}\n         " + (
        trials.progress(trial)
    )


def _drift(alarm: Any) -> str:
    return "" if alarm is None else f"drift    since {when(alarm['since_us'])}: {alarm['words']}"


def _budget(budget: Any) -> list[str]:
    """What each scope has left: ``3 of 4 trials begun within 24 h``."""
    allowed = "" if budget["per_day"] is None else f" of {budget['per_day']}"
    return [
        f"budget   {scope}: {one['begun']}{allowed} trials begun within 24 h"
        + ("" if one["level"] is None else f", the next at α {one['level']:.2g}")
        + ("" if one["next_us"] is None else f"; next at {when(one['next_us'])}")
        for scope, one in sorted(budget["scopes"].items())
    ]


def _wall(wall: Any) -> str:
    if wall is None:
        return ""
    met, allowed = (f"{wall[name] / 2**20:.0f} MiB" for name in ("wall_bytes", "allowed_bytes"))
    return (
        f"wall     memory ended at {met} {when(wall['exhausted_us'])}; {allowed} is allowed,"
        f" {wall['highest']} sequences"
    )


def _verdict(trial: Any) -> str:
    return f"{when(trial['ended_us'])}  {trial['knob']}: {trial['ruling']['words']}"


def _replica(one: Any) -> str:
    if not one["reachable"]:
        return f"{one['name']} at {one['url']} does not answer: {one['problem']}"
    differs = f"; differs in {', '.join(one['differs'])}" if one["differs"] else "; as wished"
    refused = f"; refused: {one['refused']}" if one["differs"] and one["refused"] else ""
    lacks = f"; has no {', '.join(one['not_offered'])}" if one["not_offered"] else ""
    where = f"{one['name']} at {one['url']}, incarnation {one['incarnation']}"
    return f"{where}{differs}{refused}{lacks}"

"""``trimtab trials``: what is being tried, and the evidence so far."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from controller.cli.root import Json, root_of, show
from controller.cli.tables import figure, table, when

app = typer.Typer(help="Trials and their evidence.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def listed(
    ctx: typer.Context,
    target: Annotated[str | None, typer.Option(help="Only this target's.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 20,
    as_json: Json = False,
) -> None:
    """List trials, newest first."""
    with root_of(ctx).client() as client:
        show(client.get("/v1/trials", target=target, limit=limit), as_json, _table)


@app.command("show")
def one(
    ctx: typer.Context,
    trial_id: Annotated[str, typer.Argument(help="A trial's id, from `trimtab trials list`.")],
    as_json: Json = False,
) -> None:
    """Show a trial: the frozen plan, each unit's d and E, the ruling.

    d is candidate less baseline in the metric's own unit; U and attainment are shares of 1. E is
    the evidence so far, that it is better and that it is worse: a change without effect reaches 1/α
    with a chance of at most α. A note says why a unit does not count, or what its figure is of.
    docs/how-it-decides.md shows a trial in pictures.

    \b
    trimtab trials list --target chat
    trimtab trials show TRIAL_ID --json
    """
    with root_of(ctx).client() as client:
        show(client.get(f"/v1/trials/{trial_id}"), as_json, words)


def progress(line: Any) -> str:
    """Where a trial stands, in one line; for tables and ``status``."""
    ruling = line["ruling"]
    told = ruling["words"] if ruling else "no unit judged yet"
    return (
        f"{line['units_judged']} of {line['max_units']} units judged"
        f" (at least {line['min_units']}), α = {line['alpha']:g}: {told}"
    )


def paused_by(trial: Any) -> str:
    """By what it is paused, for after its state."""
    return f" by {trial['paused_by']}" if trial["paused_by"] else ""


def _table(found: Any) -> str:
    rows = [
        (
            t["id"],
            t["state"],
            t["knob"],
            t["units_judged"],
            (t["ruling"] or {}).get("verdict"),
            when(t["began_us"]),
        )
        for t in found["items"]
    ]
    head = ["id", "state", "knob", "units", "verdict", "began"]
    return table(head, rows, none="no trials")


def words(trial: Any) -> str:
    """A trial in words: the frozen plan, a line for each unit, the ruling."""
    plan, ruling = trial["plan"], trial["ruling"]
    frozen = (
        f"frozen     α {plan['alpha']:g}, guards at {plan['guard_alpha']:g},"
        f" {plan['min_units']} to {plan['max_units']} units of {_unit(plan)},"
        f" washout {plan['washout_s']:g} s, seed {plan['seed']}"
    )
    told = [
        f"{plan['id']} is {trial['state']}{paused_by(trial)}, for policy {plan['policy_id']}",
        f"hypothesis {plan['hypothesis']}",
        frozen,
        *_halves(plan),
        *(f"guard      {g['metric']} no worse by {g['margin']:g}" for g in plan["guards"]),
        *_feedback(plan),
        _units(plan["primary"], plan["design"], trial["units"]),
        f"ruling     {ruling['words'] if ruling else 'none yet'}",
    ]
    return "\n".join(told)


def _feedback(plan: Any) -> list[str]:
    """What of users' feedback it is judged by, and how many exposures each metric needs."""
    primary = [plan["aged_primary"]] if plan["aged_primary"] else []
    told = [("by       ", one) for one in primary] + [("later    ", one) for one in plan["aged"]]
    return [
        f"{label}  {one['metric']}, margin {one['margin']:g}, {one['age_s']} s after arrival:"
        f" {one['needed']} {one['exposure']}s of each arm needed, {one['units']} units,"
        f" {one['days']:g} days{'' if one['shown'] else '; guard only: harm is looked for'}"
        for label, one in told
    ]


def _unit(plan: Any) -> str:
    """What one unit is, in words."""
    blocks = "2 blocks" if plan["design"] == "switchback" else "1 block"
    return f"{blocks} of {plan['block_s']:g} s"


def _halves(plan: Any) -> list[str]:
    """The halves of a crossover, a line each, or of the sessions; a switchback has none."""
    if plan["design"] == "session_split":
        return [f"sessions   {plan['share']:.0%} have the candidate, by the hash of their ids"]
    if plan["design"] == "switchback":
        return []
    halves = enumerate(plan["split"], start=1)
    return [f"half {number}     {', '.join(names)}" for number, names in halves]


def _order(design: str, unit: Any) -> str:
    """The arms of a switchback's blocks one after the other, or of a crossover's halves; where
    sessions are split, how many came first in this unit, with the candidate and without."""
    if design == "session_split":
        counts = unit["sessions"]
        return f"{counts.get('candidate', 0)} | {counts.get('baseline', 0)}"
    arms = [block["arm"] for block in unit["blocks"]]
    if design == "crossover":
        arms += ["baseline" if arm == "candidate" else "candidate" for arm in arms]
    return " ".join(arms)


def _note(unit: Any) -> str:
    """Why it does not count, or what its figure is of."""
    if unit["void"] or unit["tripped"]:
        return unit["void"] or "tripped"
    cut = [block["arm"] for block in unit["blocks"] if block["cut"]]
    return f"an emergency cut the {cut[0]}: it counts against it" if cut and unit["d"] else ""


_HEADS = {"switchback": "order", "crossover": "halves", "session_split": "sessions"}


def _units(primary: str, design: str, units: Any) -> str:
    rows = [
        (
            unit["index"],
            _order(design, unit),
            figure(unit["d"].get(primary)),
            figure((unit["e"] or {}).get(f"{primary}>0")),
            figure((unit["e"] or {}).get(f"{primary}<0")),
            _note(unit),
        )
        for unit in units
    ]
    head = [
        "unit",
        _HEADS[design],
        f"d {primary}",
        "E better",
        "E worse",
        "note",
    ]
    return table(head, rows, none="no units yet")

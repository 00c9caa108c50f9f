"""``trimtab report``: what somebody who answers for an engine reads once a week, or a month."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from controller.cli.asking import As, Since, Until, form, lines
from controller.cli.root import Json, root_of, show
from controller.cli.tables import table, when

app = typer.Typer(help="Reports for auditors.", no_args_is_help=True, rich_markup_mode=None)

HEADS = {
    "break_glass": "the glass was broken",
    "solo_approvals": "approved by their own proposer",
    "four_eyes_approvals": "approved by two people",
    "overdue_reviews": "kept, and not reviewed in time",
    "overrides_ending": "overrides that end within the hour, or are over",
    "overrides_long": "overrides for longer than a day",
    "denied": "refused by a guardrail",
    "unknown_spans": "times of which nobody can say what was in force",
    "stopped": "targets held, killed or detached",
    "foreign_changes": "changes by nobody known",
    "keys_expiring": "keys that expire within two weeks, or have",
    "keys_idle": "keys that may act and did nothing",
}


@app.callback()
def group() -> None:
    """Reports for auditors."""


@app.command()
def control(
    ctx: typer.Context,
    target: Annotated[str | None, typer.Option(help="Only about this target.")] = None,
    since: Since = None,
    to: Until = None,
    as_: As = "table",
    as_json: Json = False,
) -> None:
    """Report where exceptions were used; the last 30 days unless told otherwise.

    \b
    trimtab report control --since 7d
    trimtab report control --from 2026-11-01T00:00Z --to 2026-12-01T00:00Z --as csv
    """
    how = form(as_)
    query = {"target": target, "from": since, "to": to}
    with root_of(ctx).client() as client:
        if how != "table":
            for line in lines(client, "/v1/reports/control", how, **query):
                typer.echo(line)
            return
        found = client.get("/v1/reports/control", **query)
    show(found, as_json, _words)


@app.command()
def worth(
    ctx: typer.Context,
    target: Annotated[str | None, typer.Argument(help="Without it: every target.")] = None,
    week: Annotated[
        str | None, typer.Option(help="An ISO week in UTC, e.g. 2026-W49; else the last 7 days.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Report what the loop was worth in a week, as measured by the holdback; and what it did.

    Without a holdback it says so: there are only the effects that trials found.

    \b
    trimtab report worth chat
    trimtab report worth chat --week 2026-W49
    """
    with root_of(ctx).client() as client:
        listed = [line["name"] for line in client.get("/v1/targets")["items"]]
        names = listed if target is None else [target]
        found = [client.get(f"/v1/targets/{name}/worth", week=week) for name in names]
    shown = {"items": found} if target is None else found[0]
    show(shown, as_json, lambda _: "\n\n".join(map(_worth, found)) or "no targets")


def _worth(found: Any) -> str:
    blocks = ", ".join(
        f"{one['counted']} {name} ({one['lifted']} lifted, {one['void']} void)"
        for name, one in (("as usual", found["as_usual"]), ("on the baseline", found["baseline"]))
    )
    verdicts = ", ".join(f"{n} {verdict}" for verdict, n in found["verdicts"].items())
    span = f"{when(found['from_us'])} – {when(found['to_us'])}"
    broken = f"the glass was broken {found['glass_broken']} times"
    parts = [
        f"worth of {found['target']}, {span}: {found['words']}",
        f"blocks   {blocks}; {found['strata']} strata",
        table(
            ["metric", "as usual − baseline", "95 % interval"],
            [(e["metric"], f"{e['estimate']:+.4g}", _interval(e)) for e in found["worth"]],
            none="",
        ),
        *(
            f"kept     {when(one['at_us'])}  {one['policy']}: {one['words']}"
            for one in found["kept"]
        ),
        f"trials   {found['trials']} begun; {verdicts or 'none ended'}",
        f"also     {found['emergencies']} emergencies, {broken}",
        "there is more in the audit than was read" if found["cut"] else "",
    ]
    return "\n".join(part for part in parts if part)


def _interval(effect: Any) -> str:
    return f"{effect['low']:+.4g} to {effect['high']:+.4g}"


def _words(found: Any) -> str:
    whose = f" of {found['target']}" if found["target"] else ""
    parts = [f"control report{whose}, {when(found['from_us'])} – {when(found['to_us'])}"]
    for section, rows in found["findings"].items():
        more = ", and there is more" if section in found["cut"] else ""
        parts.append(f"\n{HEADS[section]}: {len(rows) or 'none'}{more}")
        parts += [f"  {_line(row)}" for row in rows]
    return "\n".join(parts)


def _line(row: Any) -> str:
    ends = row["until_us"]
    spans = ends is not None and ends != row["at_us"]
    until = f" – {when(ends)}" if spans else ""
    by = f", by {row['who']}" if row["who"] else ""
    entry = f" (entry {row['entry']})" if row["entry"] is not None else ""
    at_us = f"{when(row['at_us'])}{until}  " if row["at_us"] else ""
    return f"{at_us}{row['target']}: {row['words']}{by}{entry}"

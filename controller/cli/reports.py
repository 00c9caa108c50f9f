"""``trimtab report``: what somebody who answers for an engine reads once a month."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from controller.cli.asking import As, Since, Until, form, lines
from controller.cli.root import Json, root_of, show
from controller.cli.tables import when

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

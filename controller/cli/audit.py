"""``trimtab audit``: check it, offline if need be, and take it out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from controller.cli.root import Json, fail, root_of, show

app = typer.Typer(help="Verify and export.", no_args_is_help=True, rich_markup_mode=None)

FOUND = 1
"""Exit code of ``verify`` when something was found."""

Db = Annotated[
    Path | None,
    typer.Option(help="A store's file or a copy; without it the control plane is asked."),
]


@app.command()
def verify(ctx: typer.Context, db: Db = None, as_json: Json = False) -> None:
    """Check every entry and the rows they speak of; each that disagrees is named. Exits 1 then.

    \b
    trimtab audit verify
    trimtab audit verify --db copy-of-store.db
    """
    if db is not None:
        from controller.audit.verify import verify as verified

        result = msgspec.to_builtins(verified(db))
    else:
        with root_of(ctx).client() as client:
            result = client.get("/v1/audit/verify")["result"]
    show(result, as_json, _words)
    if result["found"]:
        raise fail(f"{result['found']} finding(s)", FOUND)


@app.command()
def export(
    ctx: typer.Context,
    db: Db = None,
    after: Annotated[int, typer.Option(min=-1, help="Only entries above this index.")] = -1,
) -> None:
    """Write the audit to standard output, one entry a line, with the bytes that were hashed.

    \b
    trimtab audit export > audit.jsonl
    """
    if db is not None:
        from controller.audit.export import export as exported

        for line in exported(db, after=after):
            sys.stdout.write(line.decode())
        return
    with root_of(ctx).client() as client:
        for text in client.lines("/v1/audit", after=after):
            sys.stdout.write(text + "\n")


def _words(result: Any) -> str:
    told = (
        f"{result['entries']} entries, {result['policies']} policies, {result['keys']} keys,"
        f" {result['definitions']} metric definitions;"
        f" root {result['root']}"
    )
    return "\n".join([told, *result["findings"]] if result["found"] else [told, "clean"])

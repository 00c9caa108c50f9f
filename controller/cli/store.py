"""``trimtab store``: where the controller's memory lies, its schema, and who may do what there."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated, Any

import typer

from controller.cli.root import Json, root_of, show
from controller.store.address import StoreAddress
from controller.store.settings import StoreSettings
from signals.errors import Rejected, Unavailable

app = typer.Typer(
    help="The controller's memory: its place, schema and rights.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command()
def status(ctx: typer.Context, as_json: Json = False) -> None:
    """Tell where the store is, its schema, its size, and whether all its guards stand.

    Asks the database itself, not the control plane.

    \b
    trimtab store status
    """
    show(_status(*_place(ctx)), as_json, _words)


@app.command()
def upgrade(ctx: typer.Context, as_json: Json = False) -> None:
    """Bring the schema to the newest revision. ``serve`` does it too when it starts.

    Stop ``serve`` first; run it as the role that owns the tables, where ``serve`` is another.

    \b
    trimtab store upgrade
    TRIMTAB_STORE__URL=postgresql://owner@db/control trimtab store upgrade
    """
    from controller.store.owning import owning
    from controller.store.sql import open_store

    address, settings = _place(ctx)
    if address.file is not None:
        address.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with owning(address, settings):
        open_store(address, settings).close()
    show(_status(address, settings), as_json, _words)


@app.command()
def grants(
    ctx: typer.Context,
    writer: Annotated[str, typer.Option(help="The role that serve logs in as.")],
    reader: Annotated[
        str | None, typer.Option(help="The role that ingest and the feature stage log in as.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the SQL that lets a role of PostgreSQL write the store and never unguard it.

    For the owner of the schema to run, after every upgrade.

    \b
    trimtab store grants --writer trimtab_serve --reader trimtab_ingest | psql control
    """
    from controller.store.granting import grants as granted

    address, _ = _place(ctx)
    if address.file is not None:
        raise Rejected("a SQLite file has no roles; its owner may do all", field="store.url")
    show({"sql": list(granted(address.schema, writer, reader))}, as_json, _sql)


def _place(ctx: typer.Context) -> tuple[StoreAddress, StoreSettings]:
    root = root_of(ctx)
    settings = root.settings.store
    return settings.address(root.layout.store_db), settings


def _status(address: StoreAddress, settings: StoreSettings) -> dict[str, Any]:
    from controller.store.audit_file import open_audit
    from controller.store.migrate import newest, revision_of
    from controller.store.owning import exists, owning
    from controller.store.sql import SqlReader

    found: dict[str, Any] = {"store": address.words(), "newest": newest(), "schema": ""}
    if not exists(address, settings):
        return found
    found["schema"] = revision_of(address, settings)
    with closing(SqlReader(address, settings)) as reader, reader.read() as tx:
        found |= {"entries": tx.audit_size(), "epoch": tx.note("epoch")}
    with open_audit(address) as file:
        found["findings"] = list(file.weak_guards())
    try:
        with owning(address, settings):
            found["owned"] = False
    except Unavailable:
        found["owned"] = True
    return found


def _words(found: Any) -> str:
    if not found["schema"]:
        return f"{found['store']}\nnothing is there yet; trimtab store upgrade sets it up"
    newer = "" if found["schema"] == found["newest"] else f", the newest is {found['newest']}"
    owner = "a process owns it" if found["owned"] else "nobody has it open for writing"
    lines = [
        found["store"],
        f"schema {found['schema']}{newer}",
        f"{found['entries']} audit entries; {owner}",
    ]
    return "\n".join([*lines, *(found["findings"] or ["all guards stand"])])


def _sql(found: Any) -> str:
    return "\n".join(found["sql"])

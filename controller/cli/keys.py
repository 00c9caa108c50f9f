"""``trimtab keys``: who may call what."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from controller.cli.root import Json, root_of, show
from controller.cli.tables import table, when
from controller.history.times import span
from controller.processes.secret_files import write_secret
from signals.errors import Rejected
from signals.events import MICROS

app = typer.Typer(help="Keys of people and producers.", no_args_is_help=True, rich_markup_mode=None)

Out = Annotated[
    Path | None, typer.Option(help="Write the key to this new file, for its owner only.")
]
Bound = Annotated[list[str] | None, typer.Option(help="Repeatable; without it, all.")]


@app.command()
def create(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="Whose it is.")],
    role: Annotated[
        str, typer.Option(help="viewer, producer, operator, approver, auditor or admin.")
    ],
    target: Bound = None,
    intent: Bound = None,
    metric: Bound = None,
    kind: Annotated[
        list[str] | None, typer.Option(help="basic, semantic, business; producers need one.")
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(help="Events a second that it may post; without it, no bound of its own."),
    ] = None,
    influence: Annotated[
        float,
        typer.Option(help="Largest share, above 0 to 1, that its values may have of any rate."),
    ] = 1.0,
    team: Annotated[
        str | None, typer.Option(help="The team whose metric definitions it may change.")
    ] = None,
    expires_in: Annotated[
        str | None, typer.Option(help="30d, 12h, 45m, 90s; at least a minute. Without it, never.")
    ] = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Make a key. It is shown once, or written to a file and not shown at all.

    \b
    trimtab keys create ana --role operator --out ana.key
    trimtab keys create eva --role approver --target chat --intent live --expires-in 30d
    trimtab keys create shop --role producer --kind business --rate 500 --influence 0.3
    trimtab keys create gus --role operator --team growth --out gus.key
    """
    body = {
        "name": name,
        "role": role,
        "targets": target or ["*"],
        "intents": intent or ["*"],
        "kinds": kind or [],
        "names": metric or ["*"],
        "rate_per_s": rate,
        "influence": influence,
        "team": team,
        "expires_in_s": None if expires_in is None else _seconds(expires_in),
    }
    _check(out)
    with root_of(ctx).client() as client:
        made = client.post("/v1/keys", body)
    _show(made, out, as_json)


@app.command("list")
def listed(
    ctx: typer.Context,
    expiring_in: Annotated[
        str | None, typer.Option(help="Only live ones that expire within this: 14d, 12h, …")
    ] = None,
    as_json: Json = False,
) -> None:
    """List keys with their last use, oldest first; never the key itself.

    \b
    trimtab keys list
    trimtab keys list --expiring-in 14d
    """
    wanted = {} if expiring_in is None else {"expiring_within_s": _seconds(expiring_in)}
    with root_of(ctx).client() as client:
        show(client.get("/v1/keys", **wanted), as_json, _table)


@app.command()
def rotate(
    ctx: typer.Context,
    key_id: Annotated[str, typer.Argument(help="A key's id.")],
    grace: Annotated[
        str, typer.Option(help="The old secret works this much longer: 1h, 2d; 0s ends it now.")
    ] = "1h",
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Give a key a new secret; its id, name and rights stay. Shown once, as by create.

    \b
    trimtab keys rotate key_0192… --grace 2d --out ana-2.key
    trimtab keys rotate key_0192… --grace 0s          # it has leaked
    """
    _check(out)
    with root_of(ctx).client() as client:
        made = client.post(f"/v1/keys/{key_id}/rotate", {"grace_s": _seconds(grace)})
    _show(made, out, as_json)


@app.command()
def revoke(ctx: typer.Context, key_id: Annotated[str, typer.Argument(help="A key's id.")]) -> None:
    """Make a key stop working."""
    with root_of(ctx).client() as client:
        client.delete(f"/v1/keys/{key_id}")
    typer.echo(f"{key_id} is revoked")


def _seconds(text: str) -> int:
    """``30d`` and the like, in seconds; ``0s`` is none. Raises ``Rejected``."""
    return 0 if text == "0s" else span(text, field="duration") // MICROS


def _check(out: Path | None) -> None:
    """Before the key is made: one that can't be written down would be lost. Raises ``Rejected``."""
    if out is None:
        return
    if out.exists():
        raise Rejected(f"{out} exists; a secret is never overwritten", field="--out")
    if not out.parent.is_dir():
        raise Rejected(f"{out.parent} is no folder", field="--out")


def _show(made: Any, out: Path | None, as_json: bool) -> None:
    if out is not None:
        write_secret(out, made.pop("key"))
        made["file"] = os.fspath(out)
    show(made, as_json, _made)


def _made(made: Any) -> str:
    owner = made["principal"]
    head = f"{owner['id']}: {owner['name']}, {owner['role']}"
    if "file" in made:
        return f"{head}\nwritten to {made['file']}"
    return f"{head}\n{made['key']}\nThis is the only time it is shown."


def _table(found: Any) -> str:
    rows = [
        (
            one["id"],
            one["name"],
            one["role"],
            ", ".join(one["targets"]),
            ", ".join(one["intents"]),
            ", ".join(one["kinds"]),
            "any" if one["rate_per_s"] is None else f"{one['rate_per_s']:g}/s",
            f"{one['influence']:g}",
            one["team"] or None,
            when(one["last_used_us"]),
            when(one["expires_us"]),
            when(one["revoked_us"]),
        )
        for one in found["items"]
    ]
    head = ["id", "name", "role", "targets", "intents", "kinds", "rate", "influence", "team"]
    head += ["last used", "expires", "revoked"]
    return table(head, rows, none="no keys")

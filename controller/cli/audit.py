"""``trimtab audit``: check it, offline if need be, prove it, take it out, seal it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from controller.cli.root import Json, Reason, fail, root_of, show
from controller.cli.tables import when
from controller.cli.tailing import moment
from controller.keys import wall_us
from signals.errors import Rejected

app = typer.Typer(help="Verify, prove, export, seal.", no_args_is_help=True, rich_markup_mode=None)

FOUND = 1
"""Exit code of ``verify``, ``prove`` and ``head`` when something is wrong."""

Db = Annotated[
    str | None,
    typer.Option(
        help="A store: file, copy, or database URL; without it the control plane is asked."
    ),
]
PublicKeys = Annotated[
    Path | None,
    typer.Option(help="keys/audit.public.json, as the auditor keeps it.", exists=True),
]


@app.command()
def head(ctx: typer.Context, as_json: Json = False) -> None:
    """Show the log's size and root, and the head that was published last. Exits 1 in an alarm.

    \b
    trimtab audit head
    trimtab audit head --json
    """
    with root_of(ctx).client() as client:
        found = client.get("/v1/audit/head")
    show(found, as_json, _head)
    if found["alarm"] is not None:
        raise fail(f"no head is signed: {found['alarm']}", FOUND)


@app.command()
def verify(
    ctx: typer.Context,
    db: Db = None,
    export: Annotated[
        Path | None, typer.Option(help="What `trimtab audit export` wrote.", exists=True)
    ] = None,
    heads: Annotated[
        Path | None, typer.Option(help="The sink's lines, as they are outside.", exists=True)
    ] = None,
    public_keys: PublicKeys = None,
    archive: Annotated[
        list[Path] | None, typer.Option(help="An archive file; repeatable.", exists=True)
    ] = None,
    archives: Annotated[
        Path | None, typer.Option(help="The folder of archives, with --db.", exists=True)
    ] = None,
    as_json: Json = False,
) -> None:
    """Check every entry and the rows they speak of; each that disagrees is named. Exits 1 then.

    With `--heads`, kept where nobody with the database can reach them, also a log that was written
    anew as a whole is found out. Take the heads first and the export after, or its end is missing.

    \b
    trimtab audit verify
    trimtab audit verify --db copy-of-store.db --heads heads.jsonl --public-keys audit.public.json
    trimtab audit verify --export audit.jsonl --heads heads.jsonl --public-keys audit.public.json
    """
    from controller.cli import audit_offline

    if db is not None and export is not None:
        raise Rejected("verify a store or an export, not both", field="export")
    if db is None and export is None:
        with root_of(ctx).client() as client:
            result = client.get("/v1/audit/verify")["result"]
    else:
        outside = audit_offline.outside(heads, public_keys)
        if export is not None:
            found = audit_offline.of_export(export, outside, archive or [])
        else:
            found = audit_offline.of_store(str(db), outside, archives)
        result = msgspec.to_builtins(found)
    show(result, as_json, _words)
    if result["found"]:
        raise fail(f"{result['found']} finding(s)", FOUND)


@app.command()
def export(
    ctx: typer.Context,
    db: Db = None,
    after: Annotated[int, typer.Option(min=-1, help="Only entries above this index.")] = -1,
    archives: Annotated[
        Path | None, typer.Option(help="The folder of archives, with --db.", exists=True)
    ] = None,
) -> None:
    """Write the audit to standard output, one entry a line, with the bytes that were hashed.

    \b
    trimtab audit export > audit.jsonl
    """
    from controller.cli import audit_offline

    if db is not None:
        for line in audit_offline.lines_of(db, after, archives):
            sys.stdout.write(line.decode())
        return
    with root_of(ctx).client() as client:
        for text in client.lines("/v1/audit", after=after):
            sys.stdout.write(text + "\n")


@app.command()
def prove(
    ctx: typer.Context,
    index: Annotated[int | None, typer.Argument(min=0, help="An entry's index.")] = None,
    first: Annotated[
        int | None, typer.Option(min=1, help="Size of an older tree that the log must extend.")
    ] = None,
    size: Annotated[int | None, typer.Option(min=1, help="Of the tree; unset, all of it.")] = None,
    as_json: Json = False,
) -> None:
    """Fetch a proof and check it here: an entry is in the log, or the log only grew. 1 if not.

    \b
    trimtab audit prove 17
    trimtab audit prove --first 1200
    """
    from controller.cli import audit_offline

    if (index is None) == (first is None):
        raise Rejected("name an entry, or an older size with --first", field="index")
    with root_of(ctx).client() as client:
        if index is not None:
            proof = client.get("/v1/audit/proof", index=index, size=size)
        else:
            proof = client.get("/v1/audit/consistency", first=first, second=size)
    holds = audit_offline.holds(proof)
    show({**proof, "holds": holds}, as_json, _proof)
    if not holds:
        raise fail("the proof does not hold", FOUND)


@app.command()
def seal(
    ctx: typer.Context,
    before: Annotated[
        str | None, typer.Option(help="Entries older than this: 90d, or a time in UTC.")
    ] = None,
    entries: Annotated[int | None, typer.Option(min=1, help="So many of the oldest.")] = None,
    as_json: Json = False,
) -> None:
    """Move old entries' bytes to an archive file. Leaf hashes stay, so proofs go on as before.

    \b
    trimtab audit seal --before 90d
    trimtab audit seal --entries 100000
    """
    before_us = None if before is None else moment(before, wall_us(), field="--before")
    with root_of(ctx).client() as client:
        made = client.post("/v1/audit/seal", {"before_us": before_us, "entries": entries})
    show(made, as_json, _sealed)


@app.command("rotate-key")
def rotate_key(ctx: typer.Context, as_json: Json = False) -> None:
    """Sign heads with a new key from now on; both keys sign that, in the sink and in the audit.

    \b
    trimtab audit rotate-key
    """
    with root_of(ctx).client() as client:
        made = client.post("/v1/audit/rotate-key")
    show(made, as_json, _rotated)


@app.command()
def restored(ctx: typer.Context, reason: Reason, as_json: Json = False) -> None:
    """Say that a backup of the store was put back, and give up the heads published since.

    Signed, in the sink and in the audit: without it the verifier takes the restore for a rollback.

    \b
    trimtab audit restored --reason "disk failed; backup of 03:00 put back"
    """
    with root_of(ctx).client() as client:
        made = client.post("/v1/audit/restored", {"reason": reason})
    show(made, as_json, _restored)


def _head(found: Any) -> str:
    published = found["published"]
    lines = [
        f"log {found['log']}: {found['size']} entries, root {found['root']}",
        "nothing published yet"
        if published is None
        else f"published: {published['size']} entries at {when(published['at_us'])}"
        f" by key {published['key']}, to {found['sink']}",
        f"not published yet: {found['unpublished']} entries",
    ]
    lines += [f"WARNING: {found['warning']}"] if found["warning"] else []
    lines += [f"the sink does not answer: {found['sink_error']}"] if found["sink_error"] else []
    return "\n".join(lines)


def _words(result: Any) -> str:
    rows = (
        f"{result['policies']} policies, {result['keys']} keys,"
        f" {result['definitions']} metric definitions"
        if result["policies"] or result["keys"] or result["rows"]
        else "an export, so the rows they speak of were not looked at"
    )
    told = f"{result['entries']} entries; {rows}; root {result['root']}"
    heads = [] if result.get("heads") is None else [_outside(result)]
    notes = [f"note: {note}" for note in result.get("notes", ())]
    return "\n".join([told, *heads, *notes, *(result["findings"] or ["clean"])])


def _outside(result: Any) -> str:
    return (
        f"{result['heads']} published heads agree;"
        f" {result['unpublished']} entries since the newest are not published yet"
    )


def _proof(proof: Any) -> str:
    verdict = "holds" if proof["holds"] else "DOES NOT HOLD"
    if "index" in proof:
        return (
            f"entry {proof['index']} is among the first {proof['size']} entries: {verdict}\n"
            f"leaf {proof['leaf_hash']}\nroot {proof['root']}"
        )
    return (
        f"the log of {proof['second']} entries extends that of {proof['first']}: {verdict}\n"
        f"root {proof['first_root']}\nroot {proof['second_root']}"
    )


def _sealed(made: Any) -> str:
    return (
        f"entries {made['first']}–{made['last']} are in {made['file']},"
        f" {made['bytes']} bytes, SHA-256 {made['sha256']}"
    )


def _rotated(made: Any) -> str:
    rotation = made["rotation"]
    return f"key {rotation['key']} handed over to {rotation['new']}; hand auditors the new keys"


def _restored(made: Any) -> str:
    restore = made["restore"]
    return (
        f"the log goes on from entry {restore['size']}; heads of up to"
        f" {restore['last_size']} entries are given up"
    )

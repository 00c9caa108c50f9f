"""``trimtab signals``: feedback in."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from controller.cli.client import Client, read_key
from controller.cli.posting import Part, Summary, documents, parts, post_all
from controller.cli.replay import replay
from controller.cli.root import Json, root_of, show
from controller.cli.tail import tail
from controller.cli.waiting import commands, orphans
from signals.errors import Rejected

PARTLY = 1
NOTHING = 2
MAX_SHOWN = 20

app = typer.Typer(
    help="Feedback: post it, watch it, fold it again.", no_args_is_help=True, rich_markup_mode=None
)
app.command()(tail)
app.command()(replay)
app.command()(orphans)
app.command()(commands)


@app.command()
def post(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="Events as JSON or NDJSON; `-` reads them in.")],
    key: Annotated[Path, typer.Option("--key", help="The producer's key file.")],
    url: Annotated[
        str | None, typer.Option(help="The signals API; default: as configured.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Events in one post at most.")] = 1000,
    retry_s: Annotated[
        float, typer.Option(min=0, help="Seconds to go on when it is away or full (503).")
    ] = 60,
    as_json: Json = False,
) -> None:
    """Post events to the signals API; they are on disk when this returns.

    A file of any size is posted in parts. When it breaks off, post the same file again: events
    carry ids, and what is there already counts once. Refused events are listed by their line.
    Exit codes: 0 all taken, 1 some refused, 2 none taken, 3 the API stayed away.

    \b
    trimtab signals post march.ndjson --key shop.key
    echo '{"id": "1", "kind": "business", "time": "2026-01-01T00:00:00Z", "name": "thumbs",
      "value": 1, "request_id": "chat.0190…"}' | trimtab signals post - --key shop.key
    """
    ingest = root_of(ctx).settings.ingest
    where = url or f"http://{ingest.host}:{ingest.port}"
    with _opened(file) as source, closing(Client(where, read_key(key))) as client:
        found = parts(
            documents(source),
            max_bytes=ingest.max_body_bytes,
            max_events=min(batch, ingest.max_events),
        )
        summary = post_all(client, found, retry_s=retry_s, told=_progress)
    if sys.stderr.isatty() and summary.posts > 1:
        typer.echo("", err=True)
    show(summary, as_json, _posted)
    if summary.refused:
        raise typer.Exit(PARTLY if summary.accepted else NOTHING)


@contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    if os.fspath(file) == "-":
        yield sys.stdin.buffer
        return
    try:
        source = file.open("rb")
    except OSError as error:
        raise Rejected(f"cannot read {file}: {error.strerror}") from error
    with source:
        yield source


def _progress(part: Part) -> None:
    """On a terminal, one line that is written over."""
    if sys.stderr.isatty():
        typer.echo(f"\rposted up to event {part.numbers[-1]}", nl=False, err=True)


def _posted(summary: Summary) -> str:
    told = [f"{summary.accepted} accepted, {summary.duplicates} of them seen before"]
    if summary.refused:
        told.append(f"{summary.refused} refused:")
    for one in summary.refusals[:MAX_SHOWN]:
        about = [] if one.field is None else [f"field: {one.field}"]
        about += [] if one.allowed is None else [f"allowed: {one.allowed}"]
        named = "" if one.id is None else f" ({one.id})"
        told.append(f"  event {one.number}{named}: {'; '.join([one.reason, *about])}")
    if summary.refused > MAX_SHOWN:
        told.append("  … (--json lists them all)")
    return "\n".join(told)

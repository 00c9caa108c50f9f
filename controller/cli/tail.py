"""``trimtab signals tail``: what is on the bus, as it comes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from typing import Annotated

import msgspec
import typer

from controller.cli import tailing
from controller.cli.root import root_of
from controller.cli.tailing import Wanted
from controller.keys import wall_us
from signals.bus.port import BusReader

POLL_S = 0.1

Only = Annotated[str | None, typer.Option(help="Only these.")]


def tail(
    ctx: typer.Context,
    target: Only = None,
    kind: Annotated[
        str | None, typer.Option(help="basic, semantic, business or command only.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Only this metric, or this sort of record.")
    ] = None,
    producer: Only = None,
    since: Annotated[
        str | None, typer.Option(help="From 10m, 2h, 1d ago, or an RFC 3339 time, on.")
    ] = None,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=0, help="Without --since: so many of the latest.")
    ] = 20,
    follow: Annotated[bool, typer.Option(help="Go on with what comes, until Ctrl-C.")] = True,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON document a line, with every field.")
    ] = False,
) -> None:
    """Show what is on the bus, one line an event, never the text of a prompt or answer.

    Reads the log itself, beside the processes that use it, and changes nothing: a SQLite bus in the
    state directory of this machine, or each partition of the Kafka topic without joining its group.
    --lines counts before --kind and the others choose.

    \b
    trimtab signals tail --kind business --target chat
    trimtab signals tail --since 10m --producer shop --no-follow
    trimtab signals tail --kind command --since 1d --no-follow --json
    """
    from controller.bootstrap import bus_readers

    wanted = Wanted(target=target, kind=kind, name=name, producer=producer)
    readers = bus_readers(root_of(ctx).settings)
    with ExitStack() as stack:
        for reader in readers.values():
            stack.callback(reader.close)
        stack.enter_context(suppress(KeyboardInterrupt))
        positions = _positions(readers, since, lines)
        while True:
            before = dict(positions)
            for shown in tailing.read(readers, positions, wanted):
                encoded = msgspec.json.encode(tailing.plain(shown)).decode() if as_json else ""
                typer.echo(encoded or tailing.line(shown))
            if positions == before:
                if not follow:
                    return
                time.sleep(POLL_S)


def _positions(readers: Mapping[int, BusReader], since: str | None, lines: int) -> dict[int, int]:
    if since is None:
        return {partition: tailing.last(reader, lines) for partition, reader in readers.items()}
    since_us = tailing.moment(since, wall_us())
    return {partition: tailing.before(reader, since_us) for partition, reader in readers.items()}

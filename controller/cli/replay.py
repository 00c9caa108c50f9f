"""``trimtab signals replay``: the bus folded again, beside the running stage, and compared."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import Struct

from controller.cli.root import Json, root_of, show
from controller.cli.tables import when
from controller.cli.tailing import before, moment
from controller.keys import wall_us
from controller.settings import Settings
from signals.bus.port import BusReader
from signals.errors import NotFound, Rejected
from signals.events import MICROS

if TYPE_CHECKING:  # what folds is heavy, and no other command needs it
    from controller.comparing import Comparison
    from signals.features.reader import SqliteFeatures
    from signals.features.replaying import Folded, Stretch

DIFFERS = 1
MAX_SHOWN = 20
DEADLY = 10_000


class Replayed(Struct, frozen=True, kw_only=True):
    """What a replay did. ``compared_from_us``: windows that start before it were not compared."""

    into: str
    folded: Folded
    compared_from_us: int | None = None
    comparison: Comparison | None = None


def replay(
    ctx: typer.Context,
    into: Annotated[Path, typer.Option(help="A new features file.")],
    since: Annotated[
        str | None, typer.Option("--from", help="10m, 2h, 1d ago, or RFC 3339; default: all.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", help="As --from; default: where the stage is now.")
    ] = None,
    compare_: Annotated[
        bool, typer.Option("--compare", help="Compare with what the running stage has.")
    ] = False,
    partition: Annotated[int, typer.Option(min=0, help="Of a bus that has several.")] = 0,
    settle_s: Annotated[
        int,
        typer.Option(
            min=0,
            help="When the first events are gone, or with --from: seconds after the first one that"
            " are not compared, for what began before it is not known.",
        ),
    ] = 3600,
    as_json: Json = False,
) -> None:
    """Fold the retained bus into a scratch file, by the definitions in force now.

    Nothing of the running system is touched: its file is read as it was at the start. With
    --compare, closed windows and joined feedback must be the same as in the running stage's own
    file, in the range that both have; what differs is listed and the exit code is 1.

    \b
    trimtab signals replay --into scratch.db --compare
    trimtab signals replay --into morning.db --from 8h --until 2h
    """
    from controller.bootstrap import bus_readers
    from signals.features.reader import SqliteFeatures

    if compare_ and until is not None:
        raise Rejected(
            "what came after --until changed the running stage's windows; leave it out to compare"
        )
    settings = root_of(ctx).settings
    with ExitStack() as stack:
        readers = bus_readers(settings)
        for each in readers.values():
            stack.callback(each.close)
        reader = _chosen(readers, partition)
        path = root_of(ctx).layout.features(partition)
        live = stack.enter_context(closing(SqliteFeatures(path, partition=partition)))
        live.hold()
        stretch = _stretch(reader, live, since, until)
        deadly = {each.offset for each in live.dead_letters(reason="deadly", limit=DEADLY)}
        folded = _fold(settings, reader, into, stretch, deadly)
        done = Replayed(into=os.fspath(into), folded=folded)
        if compare_:
            again = stack.enter_context(closing(SqliteFeatures(into)))
            whole = stretch.after == 0
            done = _compared(settings, done, live, again, stretch, 0 if whole else settle_s)
    show(done, as_json, _words)
    if done.comparison is not None and done.comparison.differences:
        raise typer.Exit(DIFFERS)


def _chosen(readers: Mapping[int, BusReader], partition: int) -> BusReader:
    if partition not in readers:
        raise NotFound(
            f"no partition {partition}", field="partition", value=partition, allowed=[*readers]
        )
    return readers[partition]


def _stretch(
    reader: BusReader, live: SqliteFeatures, since: str | None, until: str | None
) -> Stretch:
    from signals.features.replaying import Stretch

    now_us = wall_us()
    first = max(0, reader.status().first - 1)
    return Stretch(
        after=first if since is None else before(reader, moment(since, now_us, field="--from")),
        until=live.bus_offset() if until is None else reader.end(),
        until_us=None if until is None else moment(until, now_us, field="--until"),
    )


def _fold(
    settings: Settings, reader: BusReader, into: Path, stretch: Stretch, deadly: set[int]
) -> Folded:
    from controller.bootstrap import feature_rules
    from signals.features.replaying import fold_again

    with feature_rules(settings) as rules:
        folded = fold_again(
            reader, into, rules, stretch, deadly=deadly, told=lambda at: _progress(at, stretch)
        )
    if sys.stderr.isatty():
        typer.echo("", err=True)
    return folded


def _compared(
    settings: Settings,
    done: Replayed,
    live: SqliteFeatures,
    again: SqliteFeatures,
    stretch: Stretch,
    settle_s: int,
) -> Replayed:
    from controller.comparing import Comparison, compare

    first_us, last_us = done.folded.from_us, done.folded.to_us
    if first_us is None or last_us is None:
        return Replayed(into=done.into, folded=done.folded, comparison=Comparison())
    horizon_us = settings.ingest.horizon_s * MICROS
    from_us = first_us + settle_s * MICROS if settle_s else first_us - horizon_us
    found = compare(
        live,
        again,
        settings.targets,
        from_us=from_us,
        to_us=last_us + settings.ingest.skew_s * MICROS,
        offsets=range(stretch.after + 1, done.folded.last + 1),
    )
    return Replayed(into=done.into, folded=done.folded, compared_from_us=from_us, comparison=found)


def _progress(at: int, stretch: Stretch) -> None:
    """On a terminal, one line that is written over."""
    if sys.stderr.isatty():
        typer.echo(f"\rfolded up to {at} of {stretch.until}", nl=False, err=True)


def _words(done: Any) -> str:
    folded = done.folded
    span = f"{when(folded.from_us)} to {when(folded.to_us)}"
    told = [f"{folded.entries} events folded into {done.into}, accepted {span}"]
    found = done.comparison
    if found is not None:
        told.append(
            f"{found.windows} closed windows and {found.outcomes} outcomes compared:"
            f" {found.differences or 'nothing'} {'differ' if found.differences else 'differs'}"
        )
        for one in found.listed[:MAX_SHOWN]:
            told += [one.what, f"  live      {one.live}", f"  replayed  {one.replayed}"]
        if found.differences > MAX_SHOWN:
            told.append("… (--json lists more)")
    return "\n".join(told)

"""The processes: ``up`` and each of its children alone, ``init``, ``models fetch``."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Annotated

import msgspec
import typer

from controller.cli.root import Json, Root, root_of
from controller.processes.supervisor import Report
from controller.settings import Settings
from signals.errors import TrimtabError
from signals.file_lock import FileLock
from signals.stopping import stop_on_termination

models = typer.Typer(help="Model weights.", no_args_is_help=True, rich_markup_mode=None)

Stage = Callable[[Settings, threading.Event], None]


def add_to(app: typer.Typer) -> None:
    """Put the commands at the top level."""
    for command in (up, engine, ingest, features, serve, init):
        app.command()(command)
    app.add_typer(models, name="models")


def up(
    ctx: typer.Context,
    as_json: Annotated[
        bool, typer.Option("--json", help="Each event as one line of JSON; `ready` has the URLs.")
    ] = False,
) -> None:
    """Run everything on this machine: engine, ingest, features, serve.

    Crashed processes come back within seconds. Ctrl-C or SIGTERM stops all of them, in order.

    \b
    trimtab up
    trimtab --config trimtab.yaml up --json
    """
    from controller.processes.children import child_specs, ready_line
    from controller.processes.first_start import prepare
    from controller.processes.supervisor import Supervisor
    from engine.models import fetch, is_fetched

    root = root_of(ctx)
    settings, layout = root.settings, root.layout
    stop = stop_on_termination()
    layout.create()
    with FileLock(layout.supervisor):
        for path in prepare(settings):
            _say(as_json, "made", "key", {"file": os.fspath(path)})
        if settings.here() is not None and not is_fetched(settings.engine.cache):
            fetch(
                cache=settings.engine.cache,
                say=lambda line: _say(as_json, "fetching", "weights", {"progress": line}),
            )
        specs = child_specs(settings, root.config)
        supervisor = Supervisor(specs, settings.supervisor, _reporter(as_json))
        try:
            if supervisor.start(stop.is_set):
                line = ready_line(specs, supervisor.pids, layout)
                typer.echo(line if as_json else _ready_words(line))
                supervisor.watch(stop.is_set)
        finally:
            supervisor.stop()


def engine(ctx: typer.Context) -> None:
    """Run this machine's engine alone (becomes `python -m engine`)."""
    from controller.processes.engine_start import engine_command
    from controller.processes.first_start import prepare

    settings = root_of(ctx).settings
    prepare(settings)
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    command = engine_command(settings)
    os.execv(command[0], command)


def ingest(ctx: typer.Context) -> None:
    """Run the signals API and the bus alone."""
    from controller.bootstrap import run_ingest

    _stage(root_of(ctx), run_ingest)


def features(ctx: typer.Context) -> None:
    """Run the feature stage alone: dedupe, join, windows."""
    from controller.bootstrap import run_features

    _stage(root_of(ctx), run_features)


def serve(ctx: typer.Context) -> None:
    """Run the loop and the control plane alone."""
    from controller.bootstrap import run_serve

    root = root_of(ctx)
    _stage(root, partial(run_serve, config=root.config))


def init(ctx: typer.Context, as_json: Json = False) -> None:
    """Make the state directory, the store and the first keys. Run by `up` too; idempotent."""
    from controller.processes.first_start import prepare

    root = root_of(ctx)
    made = [os.fspath(path) for path in prepare(root.settings)]
    state_dir = os.fspath(root.layout.root)
    if as_json:
        typer.echo(msgspec.json.encode({"state_dir": state_dir, "made": made}))
        return
    typer.echo("\n".join([f"state in {state_dir}", *(f"made {path}" for path in made)]))


@models.command("fetch")
def fetch_models(ctx: typer.Context) -> None:
    """Fetch the engine's weights once, checksummed; later starts need no network."""
    from engine.models import fetch

    fetch(cache=root_of(ctx).settings.engine.cache, say=typer.echo)


def _stage(root: Root, run: Stage) -> None:
    """One stage's life. Logs go to standard error, which `up` collects in files."""
    from controller.processes.first_start import prepare

    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    logging.getLogger("httpx").setLevel(logging.WARNING)
    stop = stop_on_termination()
    prepare(root.settings)
    try:
        run(root.settings, stop)
    except TrimtabError:
        logging.getLogger("trimtab").exception("stopped")
        raise


def _reporter(as_json: bool) -> Report:
    def report(event: str, name: str, details: dict[str, object]) -> None:
        _say(as_json, event, name, details)

    return report


def _say(as_json: bool, event: str, name: str, details: dict[str, object]) -> None:
    if as_json:
        typer.echo(msgspec.json.encode({"event": event, "name": name, **details}).decode())
    else:
        told = ", ".join(f"{key} {value}" for key, value in details.items())
        mark = "!! " if event in ("crashed", "crashing") else "   "
        typer.echo(f"{mark}{name} {event}: {told}")


def _ready_words(line: str) -> str:
    ready = msgspec.json.decode(line)
    urls = "\n".join(f"   {name:<9} {url}" for name, url in ready["urls"].items())
    return (
        f"ready\n{urls}\n   admin key in {ready['admin_key']}\n"
        "   try: trimtab status; stop with Ctrl-C"
    )

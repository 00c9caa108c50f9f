"""The command itself: its options, and every subcommand in its place."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from controller.cli import (
    audit,
    baselines,
    changes,
    configuration,
    control,
    dead_letters,
    decisions,
    doctor,
    erase,
    guardrails,
    history,
    keys,
    metrics,
    overrides,
    policies,
    processes,
    producers,
    reports,
    rules,
    settings,
    signals,
    status,
    store,
    trials,
    way_back,
    webhooks,
    why,
    windows,
)
from controller.cli.root import Commands, Root

EPILOG = """Exit codes: 0 done, 2 refused, 3 something does not answer, 4 an invariant is broken.
Every command says more with --help."""

app = typer.Typer(
    cls=Commands,
    name="trimtab",
    help="Steer a running LLM engine by policies: proposed, approved, tried, kept or undone.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
)


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"trimtab {metadata.version('trimtab')}")
        raise typer.Exit


@app.callback()
def root(
    ctx: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", envvar="TRIMTAB_CONFIG", help="Default: ./trimtab.yaml."),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option("--url", envvar="TRIMTAB_URL", help="Control plane; default: as configured."),
    ] = None,
    key_file: Annotated[
        Path | None,
        typer.Option(
            "--key-file", envvar="TRIMTAB_KEY_FILE", help="Default: STATE_DIR/keys/admin.key."
        ),
    ] = None,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", help="Say which version this is.", callback=_say_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Options that come before the command."""
    ctx.obj = Root(config, url, key_file)


processes.add_to(app)
configuration.add_to(app)
settings.add_to(configuration.app)
status.add_to(app)
control.add_to(app)
overrides.add_to(app)
way_back.add_to(app)
why.add_to(app)
history.add_to(app)
windows.add_to(app)
decisions.add_to(app)
doctor.add_to(app)
erase.add_to(app)
app.add_typer(policies.app, name="policies")
app.add_typer(baselines.app, name="baseline")
app.add_typer(trials.app, name="trials")
app.add_typer(guardrails.app, name="guardrails")
app.add_typer(changes.app, name="changes")
app.add_typer(rules.app, name="rules")
app.add_typer(audit.app, name="audit")
app.add_typer(reports.app, name="report")
app.add_typer(keys.app, name="keys")
app.add_typer(metrics.app, name="metrics")
app.add_typer(signals.app, name="signals")
app.add_typer(dead_letters.app, name="dead-letters")
app.add_typer(producers.app, name="producers")
app.add_typer(webhooks.app, name="webhooks")
app.add_typer(store.app, name="store")


def main() -> None:
    """Entry point of ``trimtab``."""
    app()

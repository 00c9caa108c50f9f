"""What every command shares: how it finds settings and the control plane, and how it fails."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from typer.core import TyperGroup

from controller.cli.client import Client, read_key
from controller.config.load import load
from controller.layout import Layout
from controller.settings import Settings
from signals.errors import Broken, Rejected, Unavailable

REJECTED = 2
UNAVAILABLE = 3
BROKEN = 4
SHOWN = 50

Json = Annotated[bool, typer.Option("--json", help="Answer as JSON, for scripts.")]
Reason = Annotated[str, typer.Option("--reason", "-m", help="Why; it is kept in the audit.")]


class Root:
    """The options given before the command."""

    def __init__(self, config: Path | None, url: str | None, key_file: Path | None) -> None:
        self.config = config
        self._url = url
        self._key_file = key_file

    @cached_property
    def settings(self) -> Settings:
        """From the file and the environment. Raises ``Rejected`` with every problem."""
        return load(self.config, os.environ)

    @property
    def layout(self) -> Layout:
        """The state directory."""
        return Layout(self.settings.state_dir)

    def client(self) -> AbstractContextManager[Client]:
        """A client of the control plane, to be used in a ``with``."""
        url = self._url or f"http://{self.settings.serve.host}:{self.settings.serve.port}"
        return closing(Client(url, read_key(self._key_file or self.layout.key("admin"))))


class Commands(TyperGroup):
    """Turns our errors into a line on standard error and an exit code that scripts can tell."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command. Exit codes: 2 rejected, 3 unavailable, 4 a broken invariant."""
        try:
            return super().invoke(ctx)
        except Rejected as error:
            raise fail(_words(error), REJECTED) from error
        except Unavailable as error:
            raise fail(error.detail, UNAVAILABLE) from error
        except Broken as error:
            raise fail(f"broken: {error}", BROKEN) from error


def fail(message: str, code: int) -> typer.Exit:
    """Say why on standard error; raise what is returned."""
    typer.echo(f"trimtab: {message}", err=True)
    return typer.Exit(code)


def root_of(ctx: typer.Context) -> Root:
    """The options given before the command."""
    found: Root = ctx.find_root().obj
    return found


def show(answer: Any, as_json: bool, words: Callable[[Any], str]) -> None:
    """Print an answer as JSON, or in words."""
    typer.echo(msgspec.json.format(msgspec.json.encode(answer)) if as_json else words(answer))


def _words(error: Rejected) -> str:
    parts = [error.detail]
    if isinstance(error.allowed, (list, tuple)):
        allowed = ", ".join(map(str, error.allowed))
    else:
        allowed = "" if error.allowed is None else str(error.allowed).removeprefix("expected ")
    if allowed and not re.search(rf"(?<!\w){re.escape(allowed)}(?!\w)", error.detail):
        parts.append(f"allowed: {allowed}")
    if error.field is not None and error.field not in error.detail:
        parts.append(f"field: {error.field}")
    given = error.value
    if isinstance(given, (str, int, float)) and str(given)[:SHOWN] not in error.detail:
        parts.append(f"value: {str(given)[:SHOWN]!r}")
    return "; ".join(parts)

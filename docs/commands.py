"""The page of the command line: what every command answers to ``--help``, in plain text."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import typer.main
from typer.core import TyperGroup
from typer.testing import CliRunner

from controller.cli.main import app

WIDTH = 96

HEAD = """# The command line

Generated from the commands by `make docs`; do not edit by hand.

`trimtab` lives in `.venv/bin` after `make setup`.
"""


def page() -> str:
    """The whole page: the list of commands, then one section each, in alphabetical order."""
    found = sorted(names())
    listed = [f"- [`{name}`](#{name.replace(' ', '-')})" for name in found]
    return "\n".join([HEAD, *listed, "", *(section(name) for name in found)])


@cache
def root() -> TyperGroup:
    """The command line, built once: that takes longer than all its help."""
    return typer.main.get_group(app)


def names() -> Iterator[str]:
    """The full name of every command that can be run and is not hidden."""
    waiting = [("trimtab", typer.main.get_command(app))]
    while waiting:
        name, command = waiting.pop()
        if isinstance(command, TyperGroup):
            inner = command.commands.items()
            waiting += [(f"{name} {word}", each) for word, each in inner if not each.hidden]
        else:
            yield name


def section(name: str) -> str:
    """A heading and the command's own help."""
    words = [*name.split()[1:], "--help"]
    plain = {"TERM": "dumb", "NO_COLOR": "1", "COLUMNS": str(WIDTH), "TERMINAL_WIDTH": str(WIDTH)}
    with CliRunner().isolation(env=plain) as (printed, *_):
        root().main(words, prog_name="trimtab", standalone_mode=False)
        shown = printed.getvalue().decode()
    lines = [line.rstrip() for line in shown.strip().splitlines()]
    return "\n".join([f"## {name}", "", "```text", *lines, "```", ""])

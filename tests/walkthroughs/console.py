"""Runs the ``console`` blocks of a page as a reader would: in one shell, line by line.

::

    ```console
    $ trimtab status chat            a command; `\\` at the end goes on in the next line
    chat: maximise …                 what it prints; `…` stands for anything within a line
    …                                alone, for any number of lines
    [exit 1]                         how it ends, when not with 0
    ```

A command without lines below it may print what it likes.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

DONE = "--- done"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXIT = re.compile(r"^\[exit (\d+)\]$")


class Step(NamedTuple):
    """One command of a page, with the lines that should follow and the exit code."""

    line: int
    command: str
    expected: tuple[str, ...]
    code: int


def steps(page: str) -> Iterator[Step]:
    """Every command of a page's console blocks, in order."""
    for block in BLOCK.finditer(page):
        first = page.count("\n", 0, block.start(1)) + 1
        lines = block.group(1).splitlines()
        starts = [n for n, line in enumerate(lines) if line.startswith("$ ")]
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
            yield _step(first + start, lines[start:end])


def _step(number: int, lines: list[str]) -> Step:
    command, rest = lines[0][2:], lines[1:]
    while command.endswith("\\") and rest:
        command, rest = command + "\n" + rest[0], rest[1:]
    while rest and not rest[-1].strip():
        rest = rest[:-1]
    ended = EXIT.match(rest[-1]) if rest else None
    if ended is not None:
        return Step(number, command, tuple(rest[:-1]), int(ended.group(1)))
    return Step(number, command, tuple(rest), 0)


def matches(expected: tuple[str, ...], printed: str) -> bool:
    """Whether what was printed is what the page says."""
    pattern = "".join(
        r"(?:.*\n)*?"
        if line.strip() == "…"
        else r"[^\n]*".join(re.escape(part.rstrip()) for part in line.split("…")) + r"[^\n\S]*\n"
        for line in expected
    )
    return re.fullmatch(pattern, printed) is not None


class Shell:
    """One bash, in which ``trimtab`` is this tree's; variables last from step to step."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self._shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
            env=dict(env),
        )
        self.run(f'trimtab() {{ "{sys.executable}" -m controller.cli "$@"; }}')
        self.run(f'python3() {{ "{sys.executable}" "$@"; }}')

    def run(self, command: str) -> tuple[int, str]:
        """(exit code, what it printed on both streams)."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(f'{command}\nprintf "\\n{DONE} %d\\n" $?\n')
        self._shell.stdin.flush()
        printed: list[str] = []
        for line in self._shell.stdout:
            if line.startswith(DONE):
                text = "".join(printed)
                return int(line.split()[-1]), text.removesuffix("\n")
            printed.append(line)
        raise AssertionError(f"the shell ended in: {command}")

    def close(self) -> None:
        """End it."""
        assert self._shell.stdin is not None
        self._shell.stdin.close()
        self._shell.wait(10)


def walk(page: Path, shell: Shell) -> int:
    """Run every step; how many there were. Asserts that each does what the page says."""
    count = 0
    for step in steps(page.read_text(encoding="utf-8")):
        code, printed = shell.run(step.command)
        where = f"{page.name}:{step.line}: $ {step.command}\n{printed}"
        assert code == step.code, f"exit {code}, not {step.code}: {where}"
        if step.expected:
            wanted = "\n".join(step.expected)
            assert matches(step.expected, printed), f"{where}\n--- the page says\n{wanted}"
        count += 1
    return count

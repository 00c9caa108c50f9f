"""The runner of walk-throughs finds what differs: a page that rots must fail."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.house.tree import ROOT
from tests.walkthroughs.console import Shell, matches, steps, walk

PAGE = """\
Words.

```console
$ NAME=chat
$ echo "$NAME: maximise" \\
  batch
chat: maximise …

$ printf 'a\\nb\\nc\\n'
…
c
$ false
[exit 1]
```
"""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path, {**os.environ, "PYTHONPATH": str(ROOT)})


def test_a_page_that_is_true_walks_to_its_end(tmp_path: Path, shell: Shell) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE, encoding="utf-8")
    assert walk(page, shell) == 4
    shell.close()


@pytest.mark.parametrize(
    ("was", "now"),
    [("chat: maximise …", "chat: minimise …"), ("\nc\n", "\nd\n"), ("[exit 1]", "[exit 2]")],
)
def test_a_page_that_is_not_true_fails(tmp_path: Path, shell: Shell, was: str, now: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.replace(was, now), encoding="utf-8")
    with pytest.raises(AssertionError, match=r"page\.md:"):
        walk(page, shell)
    shell.close()


def test_a_command_may_go_over_several_lines() -> None:
    found = list(steps(PAGE))
    assert [step.line for step in found] == [4, 5, 9, 12]
    assert found[1].command == 'echo "$NAME: maximise" \\\n  batch'


def test_dots_stand_for_anything_within_a_line_and_alone_for_lines() -> None:
    assert matches(("a … c",), "a b c\n")
    assert not matches(("a … c",), "a b\nc\n")
    assert matches(("a", "…", "d"), "a\nb\nc\nd\n")
    assert not matches(("a", "…", "d"), "a\nb\n")

"""The walk-throughs of the documentation, walked: each line of each console block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.house.tree import ROOT
from tests.walkthroughs.console import Shell, walk
from tests.walkthroughs.scene import scene


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Mapping[str, str]]]:
    folder = tmp_path_factory.mktemp("scene")
    with scene(folder) as env:
        yield folder, env


@pytest.mark.parametrize(("page", "least"), [("auditing.md", 13), ("incidents.md", 11)])
def test_a_walk_through_is_true(
    stage: tuple[Path, Mapping[str, str]], page: str, least: int
) -> None:
    folder, env = stage
    shell = Shell(folder, env)
    try:
        assert walk(ROOT / "docs" / page, shell) >= least
    finally:
        shell.close()

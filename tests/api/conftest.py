"""One control plane a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.plane import Plane
from tests.api.story import Story


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """One for all tests of a file that leave it as it is."""
    made = Plane(tmp_path_factory.mktemp("calm"))
    made.world.run(1)
    yield made
    made.close()


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Plane]:
    made = Plane(tmp_path)
    made.world.run(1)
    yield made
    made.close()


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """One past for all tests of a file."""
    story = Story(Plane(tmp_path_factory.mktemp("told")))
    yield story
    story.plane.close()

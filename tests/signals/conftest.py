from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from signals.features.reader import SqliteFeatures
from tests.signals.making import Folding


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "features.db"


@pytest.fixture
def folding(path: Path) -> Iterator[Folding]:
    made = Folding(path)
    yield made
    made.close()


@pytest.fixture
def features(path: Path) -> Iterator[SqliteFeatures]:
    reader = SqliteFeatures(path)
    yield reader
    reader.close()

"""A store of its own for each test, in its own folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.store.sql import SqlStore, open_store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqlStore]:
    opened = open_store(f"sqlite:///{path}")
    yield opened
    opened.close()

"""A store of its own for each test, in its own folder. The schema is built once and copied."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.store.sql import SqlStore, open_store


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty store that nobody has open."""
    path = tmp_path_factory.mktemp("built") / "store.db"
    open_store(f"sqlite:///{path}").close()
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where this test's store is, or will be."""
    return tmp_path / "store.db"


@pytest.fixture
def store(path: Path, built: Path) -> Iterator[SqlStore]:
    shutil.copy(built, path)
    opened = SqlStore(path)
    yield opened
    opened.close()

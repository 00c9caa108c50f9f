"""A store of its own for each test, its webhooks running, and receivers that answer as told."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from controller.store.address import address_of
from controller.store.sql import SqlStore, open_store
from tests.postgres import Postgres
from tests.webhooks.hooked import Hooked


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty store that nobody has open."""
    path = tmp_path_factory.mktemp("built") / "store.db"
    open_store(f"sqlite:///{path}").close()
    return path


@pytest.fixture
def hooked(tmp_path: Path, built: Path) -> Iterator[Hooked]:
    shutil.copy(built, tmp_path / "store.db")
    with ExitStack() as stack:
        store = SqlStore(address_of(tmp_path / "store.db"))
        stack.callback(store.close)
        yield Hooked(tmp_path, store, stack)


@pytest.fixture
def on_postgres(tmp_path: Path, postgres: Postgres) -> Iterator[Hooked]:
    """The same on PostgreSQL."""
    address = postgres.address()
    with ExitStack() as stack:
        stack.callback(postgres.drop, address)
        store = SqlStore(address)
        stack.callback(store.close)
        yield Hooked(tmp_path, store, stack)

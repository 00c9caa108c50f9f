"""A store of its own for each test, on both databases. The schema is built once and copied.

A test that asks for ``path`` is about the SQLite file and runs there only; every other test that
asks for ``store`` or ``address`` runs on SQLite and on PostgreSQL.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from controller.store.address import StoreAddress, address_of
from controller.store.sql import SqlStore, open_store
from tests.postgres import Postgres

REFUSED_BEFORE_THE_DATABASE: Final = frozenset(
    {
        "test_a_bound_that_makes_no_sense_and_commands_are_refused",
        "test_a_guess_is_denied_with_401",
        "test_a_key_that_makes_no_sense_is_refused",
        "test_a_list_has_a_bound",
        "test_a_metric_that_makes_no_sense_is_refused",
        "test_a_move_changes_neither_identity_nor_unknown_fields",
        "test_what_is_for_ever_is_refused_with_what_it_is",
    }
)
"""Many cases each, which no database ever sees: one database is enough to show that."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "database" in metafunc.fixturenames:
        alone = metafunc.function.__name__ in REFUSED_BEFORE_THE_DATABASE
        both = () if alone or "path" in metafunc.fixturenames else ("postgresql",)
        metafunc.parametrize("database", ("sqlite", *both), indirect=True)


@pytest.fixture
def database(request: pytest.FixtureRequest) -> str:
    """Which of the two."""
    return str(request.param)


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
def address(
    database: str, tmp_path: Path, built: Path, request: pytest.FixtureRequest
) -> Iterator[StoreAddress]:
    """An empty store at the newest schema."""
    if database == "sqlite":
        yield address_of(shutil.copy(built, tmp_path / "store.db"))
        return
    server: Postgres = request.getfixturevalue("postgres")
    made = server.address()
    yield made
    server.drop(made)


@pytest.fixture
def empty(database: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[StoreAddress]:
    """Where a store may be made, and none is."""
    if database == "sqlite":
        yield address_of(tmp_path / "store.db")
        return
    server: Postgres = request.getfixturevalue("postgres")
    made = server.empty()
    yield made
    server.drop(made)


@pytest.fixture(scope="module", params=("sqlite", "postgresql"))
def used_store(
    request: pytest.FixtureRequest, built: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SqlStore]:
    """One for all tests of a module that mind nothing of what others have left in it."""
    if request.param == "sqlite":
        made = address_of(shutil.copy(built, tmp_path_factory.mktemp("used") / "store.db"))
    else:
        made = request.getfixturevalue("postgres").address()
    opened = SqlStore(made)
    yield opened
    opened.close()


@pytest.fixture
def store(address: StoreAddress) -> Iterator[SqlStore]:
    opened = SqlStore(address)
    yield opened
    opened.close()

"""What the rooms' tests share: one small engine process, the ingest it posts to, a PostgreSQL."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tests.engine_process import RunningEngine, running_engine
from tests.engine_telemetry.ingesting import KEY, Ingest
from tests.postgres import Postgres, running_postgres

LONG = (
    "tests/engine_core/test_core.py",
    "tests/walkthroughs/test_pages.py",
    "tests/whole/test_crashes.py",
    "tests/races/test_state_machine.py",
    "tests/loop/test_operators_beside_the_loop.py",
    "tests/campaign/test_kills.py",
    "tests/cli/test_up_metrics.py",
    "tests/kafka/test_group.py",
    "tests/api/test_conformance.py",
    "tests/campaign/test_races.py",
    "tests/cli/test_up.py",
)
"""Files that take a quarter of a minute or more: begun first, so that none is left alone at the end
while the other core has nothing to do."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long files first, and each file's tests as they stand in it."""
    files = [item.location[0] for item in items]
    order = {file: at for at, file in enumerate(dict.fromkeys((*LONG, *files)))}
    items.sort(key=lambda item: order[item.location[0]])


def pytest_collectstart() -> None:
    """Importing the tests makes little garbage, and much to look through for it in vain."""
    gc.disable()


def pytest_collection_finish() -> None:
    """From here on garbage is collected, and looked for only among what the tests make."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def ingest() -> Iterator[Ingest]:
    """The ingest to which ``engine`` posts its signals."""
    with Ingest() as taking:
        yield taking


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory, ingest: Ingest) -> Iterator[RunningEngine]:
    """One engine for the whole session. Tests put its settings back: see ``restored``."""
    folder = tmp_path_factory.mktemp("engine")
    (folder / "producer.key").write_text(KEY)
    with running_engine(
        folder,
        ingest_url=ingest.url,
        producer_key_file=str(folder / "producer.key"),
        telemetry_ring=64,
        second_ms=50,
        post_linger_ms=10,
    ) as started:
        yield started


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One PostgreSQL for the whole session; each test takes a database of its own."""
    with running_postgres() as server:
        yield server

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from signals.features.reader import SqliteFeatures
from tests.signals.making import Folding

FSYNC_WATCH = Path(__file__).with_name("fsync_watch.c")


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


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Preloaded into a process, it notes the fsyncs of one kind of file, and may fail them."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    assert compiler, "this test needs a C compiler (cc) to watch fsync"
    built = tmp_path_factory.mktemp("watch") / "fsync_watch.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror"]
    subprocess.run([*command, "-o", built, FSYNC_WATCH, "-ldl"], check=True, timeout=60)
    return built

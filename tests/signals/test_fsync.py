"""Invariant 1: no acknowledgement without an fsync of its own before it.

``kill -9`` cannot show this: the page cache survives a process. So a small library is preloaded
into ingest that notes every fsync of the log, and can make them fail. The counter-check runs the
same with the fsync taken out (``synchronous=OFF``) and must see it missing.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from signals.bus.sqlite import SqliteBusReader
from tests.signals.processes import free_port, start_ingest
from tests.signals.test_ingest import SHOP, event

POSTS = 25
SOURCE = Path(__file__).with_name("fsync_watch.c")


class Watched:
    """Ingest with the library in it."""

    def __init__(self, folder: Path, client: httpx.Client) -> None:
        self._log = folder / "fsyncs"
        self._switch = folder / "fail"
        self.client = client
        self.reader = SqliteBusReader(folder / "bus")

    def post(self, id_: str) -> tuple[int, int, httpx.Response]:
        """Monotonic ns just before the post and just after its answer, and the answer."""
        before_ns = time.monotonic_ns()
        answer = self.client.post("/v1/signals", json=event(id_), headers=SHOP)
        return before_ns, time.monotonic_ns(), answer

    def fsyncs(self) -> list[tuple[int, int]]:
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return [(int(begin), int(end)) for begin, end in (line.split() for line in lines)]

    def fail(self, failing: bool) -> None:
        self._switch.touch() if failing else self._switch.unlink()


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    assert compiler, "this test needs a C compiler (cc) to watch fsync"
    built = tmp_path_factory.mktemp("watch") / "fsync_watch.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror"]
    subprocess.run([*command, "-o", built, SOURCE, "-ldl"], check=True, timeout=60)
    return built


@contextmanager
def watched(folder: Path, library: Path, what: str) -> Iterator[Watched]:
    port = free_port()
    env = {
        "LD_PRELOAD": str(library),
        "FSYNC_WATCH": "00000000000000000001.db-wal",
        "FSYNC_LOG": str(folder / "fsyncs"),
        "FSYNC_FAIL": str(folder / "fail"),
    }
    ingest = start_ingest(folder, port, what=what, env=env)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20) as client:
            yield Watched(folder, client)
    finally:
        ingest.kill()


def acknowledged_without_fsync(ingest: Watched) -> list[str]:
    """Ids whose answer came without an fsync that began after the post and ended before it."""
    spans = {}
    for number in range(POSTS):
        before_ns, after_ns, answer = ingest.post(f"s{number}")
        assert answer.status_code == 202
        spans[f"s{number}"] = (before_ns, after_ns)
    fsyncs = ingest.fsyncs()
    return [
        id_
        for id_, (before_ns, after_ns) in spans.items()
        if not any(before_ns <= begin and end <= after_ns for begin, end in fsyncs)
    ]


def test_every_acknowledgement_comes_after_an_fsync_of_the_log(
    tmp_path: Path, library: Path
) -> None:
    with watched(tmp_path, library, "ingest") as ingest:
        assert acknowledged_without_fsync(ingest) == []


def test_the_check_sees_it_when_the_fsync_is_taken_out(tmp_path: Path, library: Path) -> None:
    with watched(tmp_path, library, "ingest-unsynced") as ingest:
        assert len(acknowledged_without_fsync(ingest)) == POSTS


def test_an_fsync_that_fails_is_503_and_the_next_that_works_is_202(
    tmp_path: Path, library: Path
) -> None:
    with watched(tmp_path, library, "ingest") as ingest:
        assert ingest.post("a")[2].status_code == 202
        ingest.fail(True)
        failed = ingest.post("b")[2]
        assert failed.status_code == 503
        assert int(failed.headers["retry-after"]) >= 1
        assert ingest.client.get("/readyz").status_code == 503
        ingest.fail(False)
        assert ingest.post("b")[2].status_code == 202
        bodies = [entry.body for entry in ingest.reader.read(after=0, limit=10)]
        assert [b'"id":"b"' in body for body in bodies] == [False, True], "b is there once"

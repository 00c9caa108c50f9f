"""Invariant 1: no acknowledgement without an fsync of its own before it.

``kill -9`` cannot show this: the page cache survives a process. So a small library is preloaded
into ingest that notes every fsync of the log, and can make them fail. The counter-check runs the
same with the fsync taken out (``synchronous=OFF``) and must see it missing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import httpx

from signals.bus.sqlite import SqliteBusReader
from tests.signals.processes import free_port, start_ingest
from tests.signals.test_ingest import SHOP, event

POSTS = 25
EVENTS = 200
"""In each post of those that fill segments of 64 KiB."""


class Watched:
    """Ingest with the library in it."""

    def __init__(self, folder: Path, client: httpx.Client) -> None:
        self._log = folder / "fsyncs"
        self._switch = folder / "fail"
        self.client = client
        self.reader = SqliteBusReader(folder / "bus")

    def post(self, id_: str, *, events: int = 1) -> tuple[int, int, httpx.Response]:
        """Monotonic ns just before the post and just after its answer, and the answer."""
        body = [event(f"{id_}-{n}" if n else id_) for n in range(events)]
        before_ns = time.monotonic_ns()
        answer = self.client.post("/v1/signals", json=body, headers=SHOP)
        return before_ns, time.monotonic_ns(), answer

    def fsyncs(self) -> list[tuple[int, int, str]]:
        """Begin, end and the file's name of each, in order."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        found = (line.split(" ", 2) for line in lines)
        return [(int(begin), int(end), Path(path).name) for begin, end, path in found]

    def fail(self, failing: bool) -> None:
        self._switch.touch() if failing else self._switch.unlink()


@contextmanager
def watched(folder: Path, library: Path, what: str, *, watch: str = ".db-wal") -> Iterator[Watched]:
    port = free_port()
    env = {
        "LD_PRELOAD": str(library),
        "FSYNC_WATCH": watch,
        "FSYNC_LOG": str(folder / "fsyncs"),
        "FSYNC_FAIL": str(folder / "fail"),
    }
    ingest = start_ingest(folder, port, what=what, env=env)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20) as client:
            yield Watched(folder, client)
    finally:
        ingest.kill()


def acknowledged_without_fsync(ingest: Watched, *, events: int = 1) -> list[str]:
    """Ids whose answer came without an fsync that began after the post and ended before it."""
    spans = {}
    for number in range(POSTS):
        before_ns, after_ns, answer = ingest.post(f"s{number}", events=events)
        assert answer.status_code == 202
        spans[f"s{number}"] = (before_ns, after_ns)
    fsyncs = [(begin, end) for begin, end, name in ingest.fsyncs() if name.endswith("-wal")]
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


def test_so_it_is_across_segments_and_each_has_its_name_on_the_disk_before_an_entry(
    tmp_path: Path, library: Path
) -> None:
    with watched(tmp_path, library, "ingest-small-segments", watch=".db-wal:/bus") as ingest:
        assert acknowledged_without_fsync(ingest, events=EVENTS) == []
        names = [name for _, _, name in ingest.fsyncs()]
    logs = [name for name in dict.fromkeys(names) if name[:-7].isdigit()]
    assert len(logs) >= 5, "the log rolled over"
    for before, log in pairwise(logs):
        between = names[names.index(before) : names.index(log)]
        assert "bus" in between, f"{log} was written to before its name was durable"


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

"""Invariant 1 under ``kill -9``: what was acknowledged is counted, once, whoever died when."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import httpx
import msgspec

from signals.bus.sqlite import SqliteBusReader
from signals.events import MICROS, Record
from signals.features.reader import SqliteFeatures
from signals.records import record_id, record_name
from tests.signals import making
from tests.signals.making import request_id
from tests.signals.processes import Running, eventually, free_port, start_features, start_ingest

SEED = 20
REQUESTS = 800
BATCH = 10
KILLS = 3
GIVE_UP_S = 60.0


def posted(record: Record) -> bytes:
    return msgspec.json.encode(
        {
            "id": record_id(record),
            "kind": "basic",
            "name": record_name(record),
            "data": record,
        }
    )


def feedback(number: int) -> bytes:
    return msgspec.json.encode(
        {
            "id": f"f{number}",
            "kind": "business",
            "time": datetime.now(UTC).isoformat(),
            "name": "copied",
            "value": True,
            "request_id": request_id(number),
        }
    )


class Poster(threading.Thread):
    """Posts lines in batches, each again and again until it is acknowledged, like an engine."""

    def __init__(self, port: int, key: str, lines: list[bytes]) -> None:
        super().__init__(daemon=True)
        self._url = f"http://127.0.0.1:{port}/v1/signals"
        self._headers = {
            "Authorization": f"Bearer {key}",
            "Content-Type": "application/x-ndjson",
        }
        self._lines = lines
        self.acknowledged = 0
        self.total = len(lines)

    def run(self) -> None:
        deadline_s = time.monotonic() + GIVE_UP_S
        with httpx.Client(timeout=5) as client:
            while self.acknowledged < len(self._lines) and time.monotonic() < deadline_s:
                batch = self._lines[self.acknowledged : self.acknowledged + BATCH]
                try:
                    answer = client.post(
                        self._url, content=b"\n".join(batch), headers=self._headers
                    )
                except httpx.TransportError:
                    time.sleep(0.02)
                    continue
                if answer.status_code == 202:
                    assert answer.json()["refused"] == []
                    self.acknowledged += len(batch)
                time.sleep(0.002)


def kill_now_and_then(
    rng: Random, posters: list[Poster], running: Running, again: Callable[[], Running]
) -> tuple[Running, int]:
    """Kill and restart while posting goes on, at random points of the first one's progress; the
    last process, and how many were killed."""
    first, kills = posters[0], 0
    points = sorted(rng.sample(range(BATCH, first.total - 10 * BATCH), KILLS))
    while any(poster.is_alive() for poster in posters):
        time.sleep(0.001)
        if kills < KILLS and first.is_alive() and first.acknowledged >= points[kills]:
            running.kill()
            running = again()
            kills += 1
    return running, kills


def streams() -> tuple[list[bytes], list[bytes]]:
    """An engine's records and the feedback to its requests, interleaved by time when posted."""
    now_us = time.time_ns() // 1000 - 100 * MICROS
    engine = [posted(making.started(0, now_us))]
    for number in range(REQUESTS):
        at_us = now_us + number * 20_000
        seq = 1 + 2 * number
        engine.append(posted(making.arrived(seq, number, at_us)))
        engine.append(posted(making.finished(seq + 1, number, at_us, at_us + 300_000)))
    return engine, [feedback(number) for number in range(REQUESTS)]


def check_everything_is_counted_once(folder: Path) -> None:
    features = SqliteFeatures(folder / "features.db")
    bus = SqliteBusReader(folder / "bus")
    eventually(features, offset=bus.end())
    rows = features.find_requests("chat", limit=10 * REQUESTS)
    assert len(rows) == REQUESTS
    assert all(row.status == "ok" for row in rows)
    assert [len(features.outcomes(request_id(number))) for number in range(REQUESTS)] == [
        1
    ] * REQUESTS
    windows = features.windows("chat", from_us=0, to_us=2**62)
    assert sum(window.counts.completed for window in windows) == REQUESTS
    assert sum(window.counts.judged for window in windows) == REQUESTS
    assert sum(window.counts.requests for window in windows) == REQUESTS
    copied = [counts for w in windows for counts in w.counts.outcomes.get("copied", {}).values()]
    assert sum(requests for requests, _ in copied) == REQUESTS
    assert sum(micros for _, micros in copied) == REQUESTS * MICROS
    assert not any(window.incomplete for window in windows)
    assert features.dead_letters() == []
    assert features.orphans_waiting() == 0
    assert features.engines("chat")[0].gaps == 0
    features.close()
    bus.close()


def test_ingest_killed_under_load_loses_and_doubles_nothing(tmp_path: Path) -> None:
    rng, port = Random(SEED), free_port()
    engine, shop = streams()
    features = start_features(tmp_path)
    ingest = start_ingest(tmp_path, port)
    posters = [Poster(port, "engine-key", engine), Poster(port, "shop-key", shop)]
    try:
        for poster in posters:
            poster.start()
        ingest, kills = kill_now_and_then(
            rng, posters, ingest, lambda: start_ingest(tmp_path, port)
        )
        assert kills == KILLS
        assert [poster.acknowledged for poster in posters] == [len(engine), len(shop)]
        check_everything_is_counted_once(tmp_path)
    finally:
        ingest.kill()
        features.kill()


def test_features_killed_under_load_loses_and_doubles_nothing(tmp_path: Path) -> None:
    rng, port = Random(SEED + 1), free_port()
    engine, shop = streams()
    features = start_features(tmp_path)
    ingest = start_ingest(tmp_path, port)
    posters = [Poster(port, "engine-key", engine), Poster(port, "shop-key", shop)]
    try:
        for poster in posters:
            poster.start()
        features, kills = kill_now_and_then(
            rng, posters, features, lambda: start_features(tmp_path)
        )
        assert kills == KILLS
        check_everything_is_counted_once(tmp_path)
        assert features.stop() == 0, "told to end, it ends well"
        assert ingest.stop() == 0
    finally:
        ingest.kill()
        features.kill()

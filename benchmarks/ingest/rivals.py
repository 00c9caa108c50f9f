"""What ingest is compared with: the bare log and the bare client, with nothing around them.

No HTTP, no validation, no routing, no answer to anybody; the same event bytes, the same disk or
broker, the same durability. Each is given its best batch size from a sweep of its own.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kafka import KafkaProducer
from kafka.errors import KafkaError

SQLITE_BATCHES = (200, 500, 1_000, 2_000, 5_000, 10_000)
LINGERS_MS = (0, 5, 20)
KAFKA_BATCH_BYTES = (16_384, 131_072, 524_288)
COMPRESSIONS = (None, "lz4")
_CHECK_EVERY = 200


@dataclass(frozen=True, kw_only=True)
class Rate:
    """Events per second of one run, and what it was set to."""

    per_s: float
    setting: str


def raw_sqlite(folder: Path, events: Sequence[bytes], *, batch: int, seconds: float) -> Rate:
    """Append to a table in WAL mode with ``synchronous=FULL``, a transaction per batch."""
    path = folder / "raw.db"
    log = sqlite3.connect(path, isolation_level=None)
    try:
        log.execute("PRAGMA journal_mode = WAL")
        log.execute("PRAGMA synchronous = FULL")
        log.execute("CREATE TABLE entries (offset INTEGER PRIMARY KEY, body BLOB NOT NULL)")
        done, began_s = 0, time.perf_counter()
        while (took_s := time.perf_counter() - began_s) < seconds:
            rows = ((done + n + 1, events[n % len(events)]) for n in range(batch))
            log.execute("BEGIN IMMEDIATE")
            log.executemany("INSERT INTO entries VALUES (?, ?)", rows)
            log.execute("COMMIT")
            done += batch
    finally:
        log.close()
        for file in folder.glob("raw.db*"):
            file.unlink()
    return Rate(per_s=done / took_s, setting=f"batches of {batch}")


class BareProducer:
    """kafka-python's producer as its documentation uses it: acks=all, idempotent.

    A message per event, in batches of the client's making. (Ingest packs the events of a post into
    records of its own, which is how it can be faster than its own client.)
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._partitions = partitions

    def run(
        self,
        events: Sequence[bytes],
        *,
        linger_ms: int,
        batch_bytes: int,
        compression: str | None,
        seconds: float,
    ) -> Rate:
        """Send one message per event; the clock stops when every one is acknowledged."""
        producer = KafkaProducer(
            bootstrap_servers=self._bootstrap,
            acks="all",
            enable_idempotence=True,
            linger_ms=linger_ms,
            batch_size=batch_bytes,
            compression_type=compression,
        )
        failures: list[BaseException] = []
        try:
            done, began_s = 0, time.perf_counter()
            while time.perf_counter() - began_s < seconds:
                for n in range(done, done + _CHECK_EVERY):
                    producer.send(
                        self._topic, events[n % len(events)], partition=n % self._partitions
                    ).add_errback(failures.append)
                done += _CHECK_EVERY
            producer.flush()
            took_s = time.perf_counter() - began_s
        finally:
            producer.close()
        if failures:
            raise KafkaError(f"{len(failures)} sends of {done} failed: {failures[0]}")
        return Rate(
            per_s=done / took_s,
            setting=f"linger {linger_ms} ms, batches of {batch_bytes:,} bytes,"
            f" {compression or 'no'} compression",
        )


class Run(Protocol):
    """One way to run a rival."""

    def __call__(self, *, seconds: float) -> Rate:
        """Once, for so long."""


def best(runs: Sequence[Run], seconds: float) -> tuple[Rate, Run]:
    """The fastest of a sweep, and how to run it again."""
    rates = [run(seconds=seconds) for run in runs]
    winner = max(range(len(rates)), key=lambda n: rates[n].per_s)
    return rates[winner], runs[winner]

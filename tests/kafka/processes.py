"""Ingest and feature stages on Kafka as real processes.

``python -m tests.kafka.processes ingest|features FOLDER …`` with ``FOLDER/bus.json`` as the bus's
settings; the controller wires them from ``trimtab.yaml``, here the wiring is what tests need.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import psutil

from signals.bus.kafka.membership import KafkaAssignment
from signals.bus.kafka.producing import KafkaBus
from signals.bus.port import Assignment, BusReader, BusStatus, Entry, Message
from signals.bus.settings import BusSettings
from signals.codec import encode
from signals.definitions import StaticDefinitions
from signals.events import MICROS
from signals.features.main import run as run_features
from signals.ingest.main import run as run_ingest
from signals.settings import FeatureSettings, IngestSettings
from signals.stopping import stop_on_termination
from tests.kafka.buses import PARTITIONS, key_of, wait_until
from tests.signals.making import INTENTS, METRICS, T0_US, basic, second, stamp
from tests.signals.processes import KEYS, ROOT

TARGETS = {number: key_of(number) for number in range(PARTITIONS)}
DECLARED = dict.fromkeys((*TARGETS.values(), "chat"), INTENTS["chat"])
STAND_STILL = "stand-still"
"""A file of this name makes a stage stop itself between its next read and what it does with it."""


def path_in(folder: Path, partition: int) -> Path:
    return folder / f"features-{partition}.db"


def seconds(number: int, *, of: str) -> Message:
    """The ``number``-th second of a target's only engine."""
    at_us = T0_US + number * MICROS
    signal_ = basic(second(number, at_us, by=stamp(target=of)))
    return Message(key=of, body=encode(signal_), producer="engine", accepted_us=at_us)


class Stage:
    """A feature stage; killed, if need be, when the test is over."""

    def __init__(self, folder: Path, name: str) -> None:
        self.log = folder / f"{name}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.kafka.processes", "features", str(folder), name],
                cwd=ROOT,
                stderr=log,
            )
        self.pid = self.process.pid
        self._folder = folder

    def owned(self) -> set[int]:
        """The partitions whose files it has open."""
        opened = {file.path for file in psutil.Process(self.pid).open_files()}
        return {
            number for number in range(PARTITIONS) if str(path_in(self._folder, number)) in opened
        }

    def wait_for(self, *, count: int) -> None:
        """Until it owns so many partitions."""
        wait_until(lambda: len(self.owned()) == count, within_s=40)

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def kill(self) -> None:
        """SIGKILL: no goodbye."""
        self.process.kill()
        self.process.wait(10)

    def stop(self) -> int:
        """SIGTERM, and its exit code."""
        self.process.terminate()
        return self.process.wait(20)


@contextmanager
def stages(folder: Path, settings: BusSettings) -> Iterator[list[Stage]]:
    """A list that the test puts its stages into; none is left running."""
    (folder / "bus.json").write_text(settings.model_dump_json(), encoding="utf-8")
    running: list[Stage] = []
    try:
        yield running
    finally:
        for stage in running:
            stage.kill()


class _Standing:
    """A reader that stops its process, once, with entries in its hands."""

    def __init__(self, reader: BusReader, flag: Path) -> None:
        self._reader = reader
        self._flag = flag

    def read(self, *, after: int, limit: int) -> Sequence[Entry]:
        entries = self._reader.read(after=after, limit=limit)
        if entries and self._flag.exists():
            self._flag.unlink()
            os.kill(os.getpid(), signal.SIGSTOP)
        return entries

    def end(self) -> int:
        return self._reader.end()

    def status(self) -> BusStatus:
        return self._reader.status()

    def close(self) -> None:
        self._reader.close()


class _StandingAssignment:
    def __init__(self, assignment: Assignment, flag: Path) -> None:
        self._assignment = assignment
        self._flag = flag

    def partitions(self) -> Mapping[int, BusReader]:
        owned = self._assignment.partitions()
        return {number: _Standing(reader, self._flag) for number, reader in owned.items()}

    def close(self) -> None:
        self._assignment.close()


def _features(folder: Path, settings: BusSettings, name: str) -> None:
    stop = stop_on_termination()
    flag = folder / f"{name}-{STAND_STILL}"
    with closing(_StandingAssignment(KafkaAssignment(settings), flag)) as assignment:
        run_features(
            assignment=assignment,
            path_of=lambda partition: path_in(folder, partition),
            intents=DECLARED,
            definitions=StaticDefinitions(METRICS),
            settings=FeatureSettings(batch_events=50, backoff_max_s=1.0),
            stop=stop,
        )


def _ingest(settings: BusSettings, port: int) -> None:
    stop = stop_on_termination()
    run_ingest(
        bus=KafkaBus(settings),
        keys=KEYS,
        definitions=StaticDefinitions(METRICS),
        targets=DECLARED.keys(),
        settings=IngestSettings(port=port),
        stop=stop,
    )


def main(what: str, folder: Path, rest: str) -> None:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    settings = BusSettings.model_validate_json((folder / "bus.json").read_bytes())
    if what == "ingest":
        _ingest(settings, int(rest))
    else:
        _features(folder, settings, rest)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])

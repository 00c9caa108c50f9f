"""The suite of every bus, run on the one in memory and on the SQLite log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from signals.bus.memory import MemoryBus
from signals.bus.sqlite import SqliteBus, SqliteBusReader
from tests.signals.bus_contract import BusContract, Factory


class MemoryReader:
    """The reading end of a bus whose ends are one object: closing it closes nothing else."""

    def __init__(self, bus: MemoryBus) -> None:
        self.read, self.end, self.status = bus.read, bus.end, bus.status

    def close(self) -> None:
        """Nothing is held."""


class MemoryFactory:
    partitions = 1
    durable = False

    def __init__(self) -> None:
        self._bus = MemoryBus()

    def open(self) -> MemoryBus:
        if not self._bus.healthy():
            self._bus = MemoryBus()
        return self._bus

    def reader(self, partition: int = 0) -> MemoryReader:
        return MemoryReader(self._bus)


class SqliteFactory:
    partitions = 1
    durable = True

    def __init__(self, folder: Path, opened: ExitStack) -> None:
        self._folder = folder
        self._opened = opened

    def open(self) -> SqliteBus:
        bus = SqliteBus(self._folder)
        self._opened.callback(bus.close)
        return bus

    def reader(self, partition: int = 0) -> SqliteBusReader:
        reader = SqliteBusReader(self._folder)
        self._opened.callback(reader.close)
        return reader


class TestMemory(BusContract):
    @pytest.fixture
    def factory(self) -> Factory:
        return MemoryFactory()


class TestSqlite(BusContract):
    @pytest.fixture
    def factory(self, tmp_path: Path) -> Iterator[Factory]:
        with ExitStack() as opened:
            yield SqliteFactory(tmp_path / "bus", opened)

"""The log's gauges, as Prometheus reads them from a running log."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from signals.bus.sqlite import SqliteBus
from signals.errors import Unavailable
from signals.ingest.counters import IngestCounters
from tests.signals.bus_contract import append


def test_lags_are_shown_of_the_consumers_that_can_say(tmp_path: Path) -> None:
    def unknown() -> int:
        raise Unavailable("not there yet")

    consumers = {"features": lambda: 2, "export": unknown}
    with closing(SqliteBus(tmp_path / "bus", consumers=consumers)) as bus:
        append(bus, 1, 2, 3)
        counters = IngestCounters()
        counters.watch_bus(bus.status)
        lines = counters.text().decode().splitlines()
        size = next(line for line in lines if line.startswith("trimtab_bus_bytes "))
    assert float(size.split()[1]) > 0
    shown = {line for line in lines if line.startswith("trimtab_bus_") and line != size}
    assert shown == {
        "trimtab_bus_end_offset 3.0",
        "trimtab_bus_first_offset 1.0",
        "trimtab_bus_segments 1.0",
        'trimtab_bus_consumer_lag{consumer="features"} 1.0',
    }


def test_an_empty_log_starts_after_its_end(tmp_path: Path) -> None:
    with closing(SqliteBus(tmp_path / "bus")) as bus:
        status = bus.status()
    assert (status.first, status.end) == (1, 0)
    assert status.consumers == {}
    with pytest.raises(KeyError):
        status.lag("nobody")

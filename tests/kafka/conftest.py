"""One broker for all tests of this folder, a topic and a group of its own for each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.broker import Broker
from signals.bus.settings import BusSettings
from tests.kafka.buses import settings_for


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def settings(broker: Broker, request: pytest.FixtureRequest) -> BusSettings:
    """Three partitions on the session's broker."""
    return settings_for(broker.port)

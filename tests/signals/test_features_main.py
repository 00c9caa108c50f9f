"""The feature process: waits for what is away, follows the bus, stops when told, fails loudly."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from signals.bus.memory import MemoryBus
from signals.bus.port import BusReader, Message
from signals.bus.sqlite import SqliteBus, SqliteBusReader
from signals.codec import encode
from signals.definitions import StaticDefinitions
from signals.errors import Broken
from signals.events import MICROS, Record, Signal
from signals.features.follower import pause_s
from signals.features.main import run
from signals.features.owning import SoleOwner
from signals.features.reader import SqliteFeatures
from signals.settings import FeatureSettings
from tests.signals.making import INTENTS, METRICS, T0_US, Folding, basic, feedback, second
from tests.signals.processes import eventually

SETTINGS = FeatureSettings(publish_ms=20, backoff_max_s=0.1)


def follow(bus: BusReader, path: Path, stop: threading.Event) -> None:
    with closing(SoleOwner(bus, path)) as owner:
        run(
            assignment=owner,
            path_of=lambda partition: path,
            intents=INTENTS,
            definitions=StaticDefinitions(METRICS),
            settings=SETTINGS,
            stop=stop,
        )


@contextmanager
def following(bus: BusReader, path: Path) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=follow, args=(bus, path, stop))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(10)
    assert not thread.is_alive()


def until_it_waits(caplog: pytest.LogCaptureFixture) -> None:
    deadline_s = time.monotonic() + 10
    while not caplog.records:
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def messages(*signals: Signal | Record) -> list[Message]:
    found = []
    for each in signals:
        signal = each if isinstance(each, Signal) else basic(each)
        found.append(
            Message(
                key=signal.target,
                body=encode(signal),
                producer=signal.producer,
                accepted_us=signal.time_us,
            )
        )
    return found


def test_it_follows_the_bus_and_stops_when_told(path: Path, features: SqliteFeatures) -> None:
    bus = MemoryBus()
    with following(bus, path):
        for seq in range(5):
            bus.append(messages(second(seq, T0_US + seq * MICROS)))
            eventually(features, offset=seq + 1)
    assert len(features.seconds("chat", from_us=0, to_us=2**62)) == 5
    bus.append(messages(feedback("late", T0_US, number=1)))
    with following(bus, path):
        eventually(features, offset=6)


def test_it_waits_for_a_bus_that_is_not_there_yet_and_says_so_once(
    path: Path, features: SqliteFeatures, caplog: pytest.LogCaptureFixture
) -> None:
    log = path.with_name("bus")
    with caplog.at_level(logging.WARNING), following(SqliteBusReader(log), path):
        until_it_waits(caplog)
        bus = SqliteBus(log)
        bus.append(messages(second(0, T0_US))).result(10)
        eventually(features, offset=1)
        bus.close()
    assert len([each for each in caplog.records if "waits" in each.getMessage()]) == 1


def test_it_waits_for_a_second_stage_to_be_gone(
    path: Path, features: SqliteFeatures, caplog: pytest.LogCaptureFixture
) -> None:
    bus = MemoryBus()
    bus.append(messages(second(0, T0_US)))
    Folding(path).close()
    other = SoleOwner(MemoryBus(), path)
    assert other.partitions().keys() == {0}
    with caplog.at_level(logging.WARNING), following(bus, path):
        until_it_waits(caplog)
        assert features.bus_offset() == 0, "one writer per file"
        other.close()
        eventually(features, offset=1)


def test_a_bus_that_ends_before_what_was_read_of_it_stops_the_stage(path: Path) -> None:
    folding = Folding(path)
    folding.take(second(0, T0_US), second(1, T0_US + MICROS))
    folding.close()
    shorter = MemoryBus()
    shorter.append(messages(second(0, T0_US)))
    with pytest.raises(Broken, match="ends at 1, but 2 was read"):
        follow(shorter, path, threading.Event())


def test_windows_are_published_at_once_after_quiet_and_then_every_publish_ms() -> None:
    settings = FeatureSettings(poll_ms=20, publish_ms=100, batch_events=10)
    assert pause_s(0, settings, more=False, took_s=0.001) == pytest.approx(0.019), (
        "quiet: look again soon"
    )
    assert pause_s(3, settings, more=False, took_s=0.03) == pytest.approx(0.07), "just published"
    assert pause_s(3, settings, more=False, took_s=0.2) == 0.0
    assert pause_s(10, settings, more=True, took_s=0.001) == 0.0, "there is more"

"""Two feature stages share the partitions; one dies, or stands still for too long."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from signals.bus.kafka.producing import KafkaBus
from signals.bus.settings import BusSettings
from signals.errors import Unavailable
from signals.features.reader import SqliteFeatures
from tests.kafka.buses import PARTITIONS, thaw, wait_until
from tests.kafka.processes import (
    STAND_STILL,
    TARGETS,
    Stage,
    path_in,
    seconds,
    stages,
)


class Load(threading.Thread):
    """Posts the seconds of one engine of each partition until told to stop; counts them."""

    def __init__(self, settings: BusSettings) -> None:
        super().__init__()
        self._bus = KafkaBus(settings)
        self._over = threading.Event()
        self.posted = 0

    def run(self) -> None:
        while not self._over.wait(0.01):
            for target in TARGETS.values():
                batch = [seconds(self.posted + n, of=target) for n in range(5)]
                self._bus.append(batch).result(20)
            self.posted += 5

    def end(self) -> int:
        self._over.set()
        self.join(20)
        self._bus.close()
        return self.posted


@contextmanager
def loaded(settings: BusSettings) -> Iterator[Load]:
    load = Load(settings)
    load.start()
    try:
        yield load
    finally:
        load.end()


def counted(folder: Path) -> dict[int, int]:
    """Partition -> seconds in its file; a file that is not there yet has none."""
    found = {}
    for number, target in TARGETS.items():
        file = SqliteFeatures(path_in(folder, number))
        try:
            found[number] = len(file.seconds(target, from_us=0, to_us=2**62))
        except Unavailable:
            found[number] = 0
        finally:
            file.close()
    return found


def check_each_second_is_counted_once(folder: Path, posted: int) -> None:
    wait_until(lambda: min(counted(folder).values()) >= posted, within_s=30)
    assert counted(folder) == dict.fromkeys(range(PARTITIONS), posted)
    for number in range(PARTITIONS):
        file = SqliteFeatures(path_in(folder, number))
        engine = file.producers()["engine"]
        file.close()
        assert engine.events == posted
        assert engine.duplicate == 0, "a duplicate means that something was read twice"
        assert engine.dead == 0


def test_stages_share_and_take_over_exactly_there_from_one_that_is_killed_and_one_that_leaves(
    tmp_path: Path, settings: BusSettings
) -> None:
    with stages(tmp_path, settings) as running, loaded(settings) as load:
        first = Stage(tmp_path, "first")
        running.append(first)
        first.wait_for(count=PARTITIONS)
        second = Stage(tmp_path, "second")
        running.append(second)
        wait_until(lambda: len(second.owned()) >= 1, within_s=30)
        wait_until(lambda: len(first.owned()) + len(second.owned()) == PARTITIONS)
        kept = first.owned()
        assert kept
        assert not kept & second.owned()
        before = counted(tmp_path)
        first.kill()
        second.wait_for(count=PARTITIONS)
        wait_until(lambda: all(counted(tmp_path)[number] > before[number] for number in kept))
        third = Stage(tmp_path, "third")
        running.append(third)
        wait_until(lambda: len(third.owned()) >= 1, within_s=30)
        assert second.stop() == 0
        third.wait_for(count=PARTITIONS)
        check_each_second_is_counted_once(tmp_path, load.end())


def test_a_stage_that_stood_still_past_its_session_wakes_up_and_cannot_write(
    tmp_path: Path, settings: BusSettings
) -> None:
    with stages(tmp_path, settings) as running, loaded(settings) as load:
        first = Stage(tmp_path, "first")
        running.append(first)
        first.wait_for(count=PARTITIONS)
        second = Stage(tmp_path, "second")
        running.append(second)
        wait_until(lambda: len(second.owned()) >= 1, within_s=30)
        (tmp_path / f"first-{STAND_STILL}").touch()
        wait_until(lambda: not (tmp_path / f"first-{STAND_STILL}").exists())
        second.wait_for(count=PARTITIONS)
        behind = counted(tmp_path)
        wait_until(lambda: all(counted(tmp_path)[n] > behind[n] for n in range(PARTITIONS)))
        thaw(first.pid)
        wait_until(lambda: "is given up: epoch" in first.said())
        wait_until(lambda: len(first.owned()) + len(second.owned()) == PARTITIONS, within_s=30)
        wait_until(lambda: len(first.owned()) >= 1, within_s=30)
        check_each_second_is_counted_once(tmp_path, load.end())

"""One transaction takes a bounded number of events, and of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from signals.bus.port import Entry
from signals.events import Named, NamedRequest
from signals.features.portions import Portions
from signals.settings import FeatureSettings
from tests.signals.making import T0_US, request_id, stamp
from tests.signals.on_the_bus import OnTheBus

KIB = 1024


class Log:
    """A bus of entries of these sizes. ``read_bytes``: read so far, again and again included."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self._entries = [
            Entry(offset=n, key="chat", body=b"x" * size, producer="engine", accepted_us=T0_US)
            for n, size in enumerate(sizes, 1)
        ]
        self.read_bytes = 0

    def read(self, *, after: int, limit: int) -> Sequence[Entry]:
        found = self._entries[after : after + limit]
        self.read_bytes += sum(len(entry.body) for entry in found)
        return found


def taken(log: Log, **settings: int) -> list[tuple[int, int, bool]]:
    """Events, bytes and whether there was more, of each portion."""
    portions = Portions(log, FeatureSettings.model_validate(settings))  # type: ignore[arg-type]
    found: list[tuple[int, int, bool]] = []
    at = 0
    while True:
        entries, more = portions.read(after=at)
        if not entries:
            return found
        found.append((len(entries), sum(len(entry.body) for entry in entries), more))
        at = entries[-1].offset


def test_portions_of_small_events_are_bounded_by_their_number() -> None:
    assert taken(Log([300] * 250), batch_events=100) == [
        (100, 30_000, True),
        (100, 30_000, True),
        (50, 15_000, False),
    ]


def test_portions_of_large_events_are_bounded_by_their_bytes_and_hardly_read_twice() -> None:
    log = Log([20 * KIB] * 200 + [300] * 3000)
    found = taken(log, batch_events=1000, batch_bytes=64 * KIB)
    assert sum(count for count, _, _ in found) == 3200
    assert max(size for _, size, _ in found) <= 64 * KIB
    assert [more for _, _, more in found] == [True] * (len(found) - 1) + [False]
    first = (200 * 20 + 800 * 300 / KIB) * KIB
    assert log.read_bytes <= first + 3 * (200 * 20 * KIB + 3000 * 300)
    assert len(found) < 120, "and when they are small again, portions are large again"


def test_an_event_that_is_larger_than_a_portion_is_one() -> None:
    assert taken(Log([100 * KIB, 300, 100 * KIB]), batch_bytes=64 * KIB) == [
        (1, 100 * KIB, True),
        (1, 300, True),
        (1, 100 * KIB, False),
    ]


def test_records_of_a_thousand_requests_are_taken_a_few_at_a_time(tmp_path: Path) -> None:
    records = [
        Named(
            seq=seq,
            stamp=stamp(),
            at_us=T0_US,
            requests=tuple(
                NamedRequest(
                    request_id=request_id(seq * 1000 + number),
                    intent="live",
                    class_="interactive",
                    arrival_us=T0_US,
                )
                for number in range(1000)
            ),
        )
        for seq in range(4)
    ]
    line = OnTheBus(tmp_path, batch_bytes=200_000)
    line.post(*records)
    offsets: list[int] = []
    while not offsets or offsets[-1] < 4:
        line.step()
        offsets.append(line.features.bus_offset())
    found = line.features.find_requests("chat", limit=10_000)
    line.close()
    assert offsets == [1, 2, 3, 4]
    assert len(found) == 4000

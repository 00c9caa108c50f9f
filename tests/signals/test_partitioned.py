"""Features over several files: a target's own file, or all of them in one order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from signals.bus.port import partition_of
from signals.errors import Rejected, Unavailable
from signals.events import MICROS, SeenTrial
from signals.features.partitioned import PartitionedFeatures
from tests.signals.making import T0_US, Folding, arrived, feedback, request_id, second, stamp

PARTITIONS = 2
TARGETS = {partition_of(name, PARTITIONS): name for name in ("chat", "code", "search")}


@pytest.fixture
def files(tmp_path: Path) -> Iterator[PartitionedFeatures]:
    features = PartitionedFeatures(lambda number: tmp_path / f"{number}.db", PARTITIONS)
    yield features
    features.close()


def fill(folder: Path, partition: int, *, at_s: int) -> None:
    target = TARGETS[partition]
    by = stamp(target=target, trial=SeenTrial(id="t", block=0, arm="candidate"))
    folding = Folding(folder / f"{partition}.db")
    folding.take(
        arrived(0, partition, T0_US + at_s * MICROS, by=by),
        second(1, T0_US + (at_s + 1) * MICROS, by=by),
        second(2, T0_US + (at_s + 9) * MICROS, by=by),
    )
    folding.close()


def test_what_names_a_target_comes_from_its_own_file(
    files: PartitionedFeatures, tmp_path: Path
) -> None:
    fill(tmp_path, 1, at_s=4)
    with pytest.raises(Unavailable, match=r"0\.db"):
        files.watermark_us(TARGETS[0])
    assert files.watermark_us(TARGETS[1]) == T0_US + 13 * MICROS
    assert len(files.seconds(TARGETS[1], from_us=0, to_us=2**62)) == 2
    assert files.windows(TARGETS[1], from_us=0, to_us=2**62)
    assert [seen.target for seen in files.engines(TARGETS[1])] == [TARGETS[1]]
    assert len(files.find_requests(TARGETS[1])) == 1


def test_a_request_is_looked_for_where_its_id_says_its_target_lives(
    files: PartitionedFeatures, tmp_path: Path
) -> None:
    assert partition_of("chat", PARTITIONS) == 0
    folding = Folding(tmp_path / "0.db")
    folding.take(arrived(0, 7, T0_US))
    folding.close()
    found = files.request(request_id(7))
    assert found is not None
    assert files.outcomes(request_id(7)) == []


def test_what_users_said_of_one_block_of_a_trial_is_found_by_time(
    files: PartitionedFeatures, tmp_path: Path
) -> None:
    fill(tmp_path, 1, at_s=4)
    folding = Folding(tmp_path / "0.db")
    for number, block in ((1, 0), (2, 1), (3, 0)):
        by = stamp(trial=SeenTrial(id="t", block=block, arm="candidate"))
        folding.take(arrived(number, number, T0_US, by=by))
        later_us = T0_US + (10 - number) * MICROS
        folding.take(feedback(f"f{number}", later_us, number=number))
    folding.close()
    said = [one.event_id for one in files.trial_outcomes("t", block=0)]
    assert said == ["f3", "f1"]
    assert [one.event_id for one in files.trial_outcomes("t", block=1)] == ["f2"]
    assert list(files.trial_outcomes("", block=-1)) == []


def test_a_trials_rows_of_all_files_come_in_one_order(
    files: PartitionedFeatures, tmp_path: Path
) -> None:
    fill(tmp_path, 0, at_s=4)
    fill(tmp_path, 1, at_s=2)
    arrivals = [row.arrival_us for row in files.trial_requests("t")]
    assert arrivals == [T0_US + 2 * MICROS, T0_US + 4 * MICROS]
    ends = [row.to_us - T0_US for row in files.trial_seconds("t", block=0)]
    assert ends == [3 * MICROS, 5 * MICROS, 11 * MICROS, 13 * MICROS]
    assert files.bus_offsets() == {0: 3, 1: 3}


def test_window_cursors_are_given_for_one_file_only(
    files: PartitionedFeatures, tmp_path: Path
) -> None:
    with pytest.raises(Rejected, match="each partition's own"):
        files.revisions(after=0)
    fill(tmp_path, 0, at_s=1)
    only = PartitionedFeatures(lambda number: tmp_path / f"{number}.db", 1)
    assert len(only.revisions(after=0)) > 0
    only.close()

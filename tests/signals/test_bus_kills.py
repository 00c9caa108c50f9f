"""The SQLite log under ``kill -9``, mostly while it rolls over from one segment to the next."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from signals.bus.folder import Folder
from signals.bus.sqlite import SqliteBus, SqliteBusReader
from tests.signals.bus_contract import read_all
from tests.signals.bus_victim import EVENTS, SETTINGS, number_of
from tests.signals.processes import ROOT

KILLS = 20
A_MILLION = 1_000_000


def killed_after(folder: Path, start: int, seconds: float) -> set[int]:
    """Run a victim, let it append for a while after its first acknowledgement, and kill it; the
    numbers that it had acknowledged."""
    command = [sys.executable, "-m", "tests.signals.bus_victim", str(folder), str(start)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, bufsize=0) as victim:
        assert victim.stdout is not None
        assert select.select([victim.stdout], [], [], 20)[0], "it acknowledged nothing"
        said, kill_at_s = b"", time.monotonic() + seconds
        while (left_s := kill_at_s - time.monotonic()) > 0:
            if select.select([victim.stdout], [], [], left_s)[0]:
                said += os.read(victim.stdout.fileno(), 65_536)
        victim.kill()
        said += victim.stdout.read()
        firsts = [int(line) for line in said.split(b"\n")[:-1]]
    assert victim.returncode == -9, "it lived until it was killed"
    return {number for first in firsts for number in range(first, first + EVENTS)}


def check(folder: Path, acknowledged: set[int]) -> None:
    """Everything acknowledged is there, nothing twice, no offset missing or given twice."""
    reader = SqliteBusReader(folder)
    entries = read_all(reader)
    reader.close()
    found = [number_of(entry.body) for entry in entries]
    assert acknowledged <= set(found)
    assert len(set(found)) == len(found)
    assert [entry.offset for entry in entries] == list(range(1, len(entries) + 1))
    for key in ("k0", "k1"):
        mine = [number_of(entry.body) for entry in entries if entry.key == key]
        assert mine == sorted(mine)


@pytest.mark.parametrize("seed", [7])
def test_killed_while_rolling_over_it_loses_nothing_and_gives_no_offset_twice(
    tmp_path: Path, seed: int
) -> None:
    rng, folder, acknowledged = Random(seed), tmp_path / "bus", set[int]()
    for kill in range(KILLS):
        acknowledged |= killed_after(folder, kill * A_MILLION, rng.uniform(0.0, 0.15))
        if kill % 5 == 4:
            check(folder, acknowledged)
    check(folder, acknowledged)
    segments = Folder(folder).firsts()
    assert len(segments) > KILLS, "it did roll over"
    bus = SqliteBus(folder, SETTINGS)
    bus.close()
    check(folder, acknowledged)
    assert set(os.listdir(folder)) >= {Folder(folder).file(first).name for first in segments}

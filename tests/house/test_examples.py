"""The example that a newcomer reads first runs as written, and says what its page says."""

from __future__ import annotations

import subprocess
import sys

from tests.house.tree import ROOT


def test_the_smallest_program_shows_a_law_at_work_and_the_way_back() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.01_minimal"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    caps = [line.split("active_cap")[1].strip() for line in done.stdout.splitlines()[:10]]
    baseline, idle, busy = "16, by the baseline", "64, by pol_1", "8, by pol_1"
    expected = [baseline] * 2 + [idle] * 2 + [busy] * 2 + [idle] * 2 + [baseline] * 2
    assert caps == expected


def test_every_make_target_can_be_planned() -> None:
    """A target whose recipe or prerequisites are broken fails in a dry run already."""
    listed = subprocess.run(
        ["make", "help"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    targets = [line.split()[0] for line in listed.stdout.splitlines()[1:]]
    assert {"run", "test", "check", "docs", "counter-checks"} <= set(targets)
    for target in targets:
        done = subprocess.run(
            ["make", "--dry-run", target],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr

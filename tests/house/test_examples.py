"""The example that a newcomer reads first runs as written, and says what its page says."""

from __future__ import annotations

import os
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


def planned(*words: str) -> subprocess.CompletedProcess[str]:
    """``make`` as a person would call it, also when these tests run under ``make test``."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        ["make", *words],
        cwd=ROOT,
        env=outside,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_every_make_target_can_be_planned() -> None:
    """A target whose recipe or prerequisites are broken fails in a dry run already."""
    targets = [line.split()[0] for line in planned("help").stdout.splitlines()[1:]]
    assert {"run", "test", "check", "docs", "counter-checks"} <= set(targets)
    for target in targets:
        done = planned("--dry-run", target)
        assert done.returncode == 0, done.stderr

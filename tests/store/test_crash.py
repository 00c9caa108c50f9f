"""SIGKILL at any moment: what was committed is there, the rest is not, and the audit agrees."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

from controller.audit.verify import verify
from controller.store.sql import open_store
from tests.store.samples import stored_in


def started(path: Path, how: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.store.writer", str(path), how]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )


def killed(writer: subprocess.Popen[str]) -> str:
    """The rest of what it said."""
    writer.send_signal(signal.SIGKILL)
    said, _ = writer.communicate(timeout=30)
    assert writer.returncode == -signal.SIGKILL
    return said


def test_a_writer_killed_inside_a_transaction_leaves_nothing_of_it(path: Path) -> None:
    store = open_store(f"sqlite:///{path}")
    policy = stored_in(store, "kept")
    store.close()
    before = verify(path)
    writer = started(path, "halfway")
    assert writer.stdout is not None
    assert writer.stdout.readline() == "halfway\n"
    killed(writer)
    assert verify(path) == before
    store = open_store(f"sqlite:///{path}")
    with store.read() as tx:
        assert tx.policies() == [policy]
    stored_in(store, "pending")
    store.close()
    assert verify(path).clean


def test_a_writer_killed_at_random_moments_leaves_store_and_audit_in_agreement(path: Path) -> None:
    seed = random.SystemRandom().getrandbits(32)
    rng = random.Random(seed)
    committed: dict[str, str] = {}
    for _ in range(4):
        writer = started(path, "endless")
        assert writer.stdout is not None
        lines = [writer.stdout.readline() for _ in range(rng.randint(1, 90))]
        lines += killed(writer).splitlines()
        for line in lines:
            policy_id, _, state = line.strip().partition(" ")
            committed[policy_id] = state or "kept"
        checked = verify(path)
        assert checked.findings == (), f"seed {seed}"
        assert checked.policies >= len(committed)
    store = open_store(f"sqlite:///{path}")
    legal = {"kept": {"kept", "reverting", "reverted"}, "reverting": {"reverting", "reverted"}}
    with store.read() as tx:
        for policy_id, state in committed.items():
            assert tx.policy(policy_id).state in legal.get(state, {state}), f"seed {seed}"
    store.close()

"""SIGKILL at any moment: what was committed is there, the rest is not, and the audit agrees."""

from __future__ import annotations

import random
import signal
import subprocess
import sys

from controller.audit.verify import verify
from controller.store.address import StoreAddress
from controller.store.sql import SqlStore
from tests.store.samples import stored_in


def started(address: StoreAddress, how: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.store.writer", address.url, how]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )


def killed(writer: subprocess.Popen[str]) -> str:
    """The rest of what it said."""
    writer.send_signal(signal.SIGKILL)
    said, _ = writer.communicate(timeout=30)
    assert writer.returncode == -signal.SIGKILL
    return said


def test_a_writer_killed_inside_a_transaction_leaves_nothing_of_it(address: StoreAddress) -> None:
    store = SqlStore(address)
    policy = stored_in(store, "kept")
    store.close()
    before = verify(address)
    writer = started(address, "halfway")
    assert writer.stdout is not None
    assert writer.stdout.readline() == "halfway\n"
    killed(writer)
    assert verify(address) == before
    store = SqlStore(address)
    with store.read() as tx:
        assert tx.policies() == [policy]
    stored_in(store, "pending")
    store.close()
    assert verify(address).clean


def test_a_writer_killed_at_random_moments_leaves_store_and_audit_in_agreement(
    address: StoreAddress,
) -> None:
    seed = random.SystemRandom().getrandbits(32)
    rng = random.Random(seed)
    committed: dict[str, str] = {}
    for _ in range(3):
        writer = started(address, "endless")
        assert writer.stdout is not None
        lines = [writer.stdout.readline() for _ in range(rng.randint(1, 90))]
        lines += killed(writer).splitlines()
        for line in lines:
            policy_id, _, state = line.strip().partition(" ")
            committed[policy_id] = state or "kept"
        checked = verify(address)
        assert checked.findings == (), f"seed {seed}"
        assert checked.policies >= len(committed)
    store = SqlStore(address)
    legal = {"kept": {"kept", "reverting", "reverted"}, "reverting": {"reverting", "reverted"}}
    with store.read() as tx:
        for policy_id, state in committed.items():
            assert tx.policy(policy_id).state in legal.get(state, {state}), f"seed {seed}"
    store.close()

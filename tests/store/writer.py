"""A process that writes the store until it is killed. Prints what it has committed, as it does.

``python -m tests.store.writer URL endless``: policies through their whole lives, several moves a
transaction. ``… URL halfway``: says ``halfway`` inside a transaction and waits there.
"""

from __future__ import annotations

import os
import sys
import time

from controller.store.sql import SqlStore, open_store
from policies.ids import new_id
from policies.policy import Policy
from tests.store.samples import a_policy, path_to


def endless(store: SqlStore) -> None:
    while True:
        policy = fresh_policy()
        with store.write() as tx:
            tx.add_policy(policy)
            for after in path_to("kept"):
                policy = tx.move(policy, after, actor="loop", at_us=time.time_ns() // 1000)
        say(policy.id)
        for after in ("reverting", "reverted"):
            with store.write() as tx:
                policy = tx.move(policy, after, actor="loop", at_us=time.time_ns() // 1000)
            say(f"{policy.id} {policy.state}")


def halfway(store: SqlStore) -> None:
    policy = fresh_policy()
    with store.write() as tx:
        tx.add_policy(policy)
        tx.move(policy, "pending", actor="loop", at_us=policy.created_us)
        say("halfway")
        sys.stdin.read()


def fresh_policy() -> Policy:
    """Several writers, one after the other, must not choose the same id."""
    now_us = time.time_ns() // 1000
    return a_policy(id=new_id("pol", now_us, os.urandom(8)), created_us=now_us)


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    opened = open_store(sys.argv[1])
    {"endless": endless, "halfway": halfway}[sys.argv[2]](opened)

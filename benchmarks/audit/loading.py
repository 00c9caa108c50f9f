"""A long past: entries through the audit's own batch appender, rows as the store writes them.

Each policy is proposed, approved, tried and ended, and its replica's settings change three times.
Ten entries each, so 100,000 policies make a million entries. The same seed makes the same past.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, Final

import msgspec
from msgspec import Struct
from sqlalchemy import Table, insert

from benchmarks.audit.records import BEGAN_US, STEP_US, TARGETS, a_policy
from controller.store.address import StoreAddress
from controller.store.connecting import writing_engine
from controller.store.policy_rows import row_of
from controller.store.port import Act
from controller.store.rows import content, encoded
from controller.store.settings import StoreSettings
from controller.store.sql import SqlStore
from controller.store.tables import policies as policies_table
from controller.store.tables import segments as segments_table
from policies.in_force import InForce, Segment
from policies.lifecycle import State
from policies.policy import Policy

AT_ONCE: Final = 500
"""Policies of one transaction: 5,000 entries."""
ENTRIES_EACH: Final = 10
WON: Final[tuple[State, ...]] = (
    "pending",
    "approved",
    "applying",
    "on_trial",
    "kept",
    "superseded",
)
"""Of several kept on one place only the newest stays kept."""
LOST: Final[tuple[State, ...]] = (
    "pending",
    "approved",
    "applying",
    "on_trial",
    "reverting",
    "reverted",
)
PEOPLE: Final = 40
REPLICA: Final = "r0"
INCARNATION: Final = "5eed5eed5eed"
MINUTE_US: Final = 60_000_000


class Past(Struct, frozen=True, kw_only=True):
    """What was loaded. ``stamps``: (target, policy, version) to ask for, evenly spread."""

    policies: int
    entries: int
    until_us: int
    stamps: tuple[tuple[str, str, int], ...]


def load(store: SqlStore, address: StoreAddress, policies: int, *, seed: int, sample: int) -> Past:
    """Fill an empty store; ``sample`` of its policies are told."""
    past = _Past(Random(seed))
    stamps: list[tuple[str, str, int]] = []
    every = max(1, policies // sample)
    engine = writing_engine(address, StoreSettings())
    for first in range(0, policies, AT_ONCE):
        for number in range(first, min(first + AT_ONCE, policies)):
            made = past.add(number)
            if number % every == 0:
                stamps.append((made.target, made.id, past.versions[made.target] - 1))
        if first + AT_ONCE >= policies:
            past.end()
        with store.write() as tx:
            tx.append_many(past.acts)
        with engine.begin() as connection:
            for table, rows in past.rows():
                connection.execute(insert(table), rows)
        past.forget()
    engine.dispose()
    until_us = BEGAN_US + policies * STEP_US
    return Past(policies=policies, entries=past.entries, until_us=until_us, stamps=tuple(stamps))


class _Past:
    """Policies, segments and the acts that made them, a chunk at a time."""

    def __init__(self, rng: Random) -> None:
        self.entries = 0
        self.acts: list[Act] = []
        self.versions = dict.fromkeys(TARGETS, 0)
        self._policies: list[dict[str, Any]] = []
        self._segments: list[dict[str, Any]] = []
        self._open: dict[str, dict[str, Any]] = {}
        self._rng = rng

    def end(self) -> None:
        """What is open stays open."""
        self._segments += self._open.values()

    def rows(self) -> Iterator[tuple[Table, list[dict[str, Any]]]]:
        """What the acts are about."""
        yield policies_table, self._policies
        yield segments_table, self._segments

    def forget(self) -> None:
        """The chunk is stored."""
        self.acts, self._policies, self._segments = [], [], []

    def add(self, number: int) -> Policy:
        """One policy with its whole life, and the three settings it led to."""
        policy = a_policy(number)
        shown = {"policy": msgspec.to_builtins(policy)}
        self._act(policy, "proposed", policy.created_us, shown)
        for after in WON if self._rng.random() < 0.1 else LOST:
            before, at_us = policy.state, policy.updated_us + 1_000_000
            policy = msgspec.structs.replace(
                policy, state=after, rev=policy.rev + 1, updated_us=at_us
            )
            self._act(policy, after, at_us, {"before": before, "after": after, "changes": {}})
        self._policies.append(row_of(policy))
        for segment in _segments(policy, self.versions):
            self._observe(segment, max(policy.updated_us, segment.from_us))
        return policy

    def _act(self, policy: Policy, what: State, at_us: int, details: dict[str, Any]) -> None:
        person = f"key_{self._rng.randrange(PEOPLE):032x}"
        self._append(
            at_us,
            person if what == "approved" else "loop",
            f"policy.{what}",
            policy.id,
            policy.target,
            {**details, "rev": policy.rev, "content": content(encoded(policy))},
        )

    def _observe(self, segment: Segment, at_us: int) -> None:
        body = encoded(segment)
        row = {
            "target": segment.target,
            "replica": segment.replica,
            "from_us": segment.from_us,
            "until_us": None,
            "incarnation": segment.incarnation,
            "version": segment.version,
            "entry": self.entries,
            "body": body,
        }
        before = self._open.get(segment.target)
        if before is not None:
            self._segments.append({**before, "until_us": segment.from_us})
        self._open[segment.target] = row
        told = {"content": content(body), "segment": msgspec.to_builtins(segment)}
        self._append(at_us, "loop", "settings.observed", segment.replica, segment.target, told)

    def _append(
        self, at_us: int, actor: str, action: str, subject: str, target: str, details: Any
    ) -> None:
        self.acts.append(
            Act(
                at_us=at_us,
                actor=actor,
                action=action,
                subject=subject,
                target=target,
                details=details,
            )
        )
        self.entries += 1


def _segments(policy: Policy, versions: dict[str, int]) -> Iterator[Segment]:
    """Baseline's arm, candidate's arm, and what was there before: three versions."""
    for step, value in enumerate((8, 16, 8)):
        version = versions[policy.target] = versions[policy.target] + 1
        yield Segment(
            target=policy.target,
            replica=REPLICA,
            from_us=policy.created_us + step * STEP_US // 4,
            incarnation=INCARNATION,
            version=version,
            digest=f"{value:012x}",
            cause="patch",
            change_id=f"ctl.1.{version}",
            settings={
                "active_cap": InForce(value=value, policy_id=policy.id if value == 16 else None),
                "step_token_budget": InForce(value=256),
            },
        )

"""A store that lives: people and the loop act on it at random, as the product would.

Everything is drawn from one seed, but for the order in which concurrent writers come.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

from controller.store.port import Control, Principal, Store, Tx
from policies.baseline import Baseline
from policies.changes import DeclaredChange
from policies.in_force import InForce, Segment
from policies.lifecycle import MOVES
from policies.overrides import Override
from policies.policy import Origin, Policy
from policies.settings import Setting
from signals.errors import Conflict
from signals.settings import MetricSettings

NOW_US = 1_750_000_000_000_000
TARGETS = ("chat", "code")
PEOPLE = ("ann", "bob", "cho")
WRITERS = 3


class Aborted(Exception):
    """Somebody's transaction that comes to nothing."""


class Life:
    """Acts on a store. ``now_us`` rises with every act and sometimes runs back a little."""

    def __init__(self, store: Store, rng: Random) -> None:
        self.store = store
        self.rng = rng
        self._count = 0

    def clock(self) -> int:
        """Unix µs, made up; not by chance, which concurrent writers would draw in any order."""
        self._count += 1
        return NOW_US + self._count * 1_000_000 - (5_000_000 if self._count % 4 == 0 else 0)

    def act(self, times: int) -> None:
        """So many transactions, one after the other; about one in eight comes to nothing."""
        for _ in range(times):
            self._once(self.rng)

    def act_together(self, times: int) -> None:
        """So many transactions by each of several writers at once."""
        seeds = [self.rng.getrandbits(64) for _ in range(WRITERS)]

        def write(seed: int) -> None:
            rng = Random(seed)
            for _ in range(times):
                self._once(rng)

        with ThreadPoolExecutor(WRITERS) as writers:
            list(writers.map(write, seeds))

    def _once(self, rng: Random) -> None:
        acts: list[Callable[[Tx, Random], None]] = [
            self._propose,
            self._move,
            self._move,
            self._amend,
            self._override,
            self._end_override,
            self._change,
            self._end_change,
            self._baseline,
            self._segment,
            self._segment,
            self._key,
            self._metric,
            self._mode,
            self._control,
            self._plain,
        ]
        try:
            with self.store.write() as tx:
                for act in rng.sample(acts, rng.choice((1, 1, 1, 2, 4))):
                    act(tx, rng)
                if rng.random() < 0.12:
                    raise Aborted
        except (Aborted, Conflict):
            return

    def _id(self, prefix: str, rng: Random) -> str:
        self._count += 1
        return f"{prefix}_{self._count:06d}{rng.getrandbits(40):010x}"

    def _propose(self, tx: Tx, rng: Random) -> None:
        now_us = self.clock()
        tx.add_policy(
            Policy(
                id=self._id("pol", rng),
                target=rng.choice(TARGETS),
                knob="active_cap",
                before=Setting(value=8),
                setting=Setting(value=rng.choice((2, 4, 16, 32))),
                origin=Origin(kind="plant", name="step_curve"),
                reason=f"a step takes {rng.random():.4f} s",
                mode="approve",
                proposed_by="loop",
                created_us=now_us,
                updated_us=now_us,
            )
        )

    def _move(self, tx: Tx, rng: Random) -> None:
        open_ones = [one for one in tx.policies(limit=50) if MOVES[one.state]]
        if open_ones:
            policy = rng.choice(open_ones)
            after = rng.choice(sorted(MOVES[policy.state]))
            tx.move(policy, after, actor=rng.choice(PEOPLE), at_us=self.clock())

    def _amend(self, tx: Tx, rng: Random) -> None:
        pending = tx.policies(states=("pending",), limit=10)
        if pending:
            policy = rng.choice(pending)
            reason = f"{policy.reason}, seen again"
            tx.amend(policy, "seconded", actor="ann", at_us=self.clock(), reason=reason)

    def _override(self, tx: Tx, rng: Random) -> None:
        now_us = self.clock()
        tx.add_override(
            Override(
                id=self._id("ovr", rng),
                target=rng.choice(TARGETS),
                kind="pin",
                knob="active_cap",
                setting=Setting(value=rng.randrange(1, 64)),
                reason="maintenance",
                by=rng.choice(PEOPLE),
                created_us=now_us,
                expires_us=now_us + 3_600_000_000,
            )
        )

    def _end_override(self, tx: Tx, rng: Random) -> None:
        active = tx.overrides(state="active", limit=20)
        if active:
            tx.end_override(
                rng.choice(active), cause="released by bob", actor="bob", at_us=self.clock()
            )

    def _change(self, tx: Tx, rng: Random) -> None:
        now_us = self.clock()
        change = DeclaredChange(
            id=self._id("chg", rng),
            target=rng.choice(TARGETS),
            kind="deploy",
            words="a new gateway",
            by=rng.choice(PEOPLE),
            from_us=now_us,
        )
        tx.add_declared_change(change, at_us=now_us)

    def _end_change(self, tx: Tx, rng: Random) -> None:
        running = [one for one in tx.declared_changes(limit=20) if one.until_us is None]
        if running:
            tx.end_declared_change(rng.choice(running).id, actor="cho", at_us=self.clock())

    def _baseline(self, tx: Tx, rng: Random) -> None:
        target = rng.choice(TARGETS)
        now = tx.baseline(target)
        tx.declare_baseline(
            Baseline(
                target=target,
                version=1 if now is None else now.version + 1,
                settings={"active_cap": Setting(value=rng.randrange(1, 64))},
                managed_by="api",
                by=rng.choice(PEOPLE),
                reason="a better start",
                from_us=self.clock(),
            )
        )

    def _segment(self, tx: Tx, rng: Random) -> None:
        now_us = self.clock()
        replica = rng.choice(("a", "b"))
        before = tx.segment_at("chat", replica, 2 * NOW_US)
        from_us = now_us if before is None else max(now_us, before.from_us + 1)
        known = rng.random() < 0.9
        segment = Segment(
            target="chat",
            replica=replica,
            from_us=from_us,
            known=known,
            incarnation="i1",
            version=rng.randrange(100),
            settings={"active_cap": InForce(value=rng.randrange(1, 64))} if known else {},
        )
        tx.add_segment(segment, actor="loop", at_us=now_us)

    def _key(self, tx: Tx, rng: Random) -> None:
        if rng.random() < 0.4 and (there := tx.keys()):
            tx.revoke_key(rng.choice(there).id, actor="ann", at_us=self.clock())
            return
        made = Principal(id=self._id("key", rng), name="shop", role="producer", kinds=("business",))
        digest = hashlib.sha256(rng.randbytes(16)).digest()
        tx.add_key(made, digest, actor="ann", at_us=self.clock())

    def _metric(self, tx: Tx, rng: Random) -> None:
        name = rng.choice(("stars", "copied"))
        if rng.random() < 0.3 and any(one.name == name for one in tx.definitions()):
            tx.retire(name, actor="ann", at_us=self.clock())
            return
        metric = MetricSettings(high=float(rng.randrange(2, 9)))
        tx.declare(name, metric, managed_by="api", actor="ann", at_us=self.clock())

    def _mode(self, tx: Tx, rng: Random) -> None:
        target, mode = rng.choice(TARGETS), rng.choice(("observe", "approve", "auto"))
        before = tx.modes(target).get("active_cap", "observe")
        tx.set_mode(target, "active_cap", mode)  # type: ignore[arg-type]
        details = {"before": before, "after": mode}
        self._append(tx, "mode.set", "active_cap", target, details)

    def _control(self, tx: Tx, rng: Random) -> None:
        target = rng.choice(TARGETS)
        state = rng.choice(("held", "killed", "detached", "released"))
        since_us, stands = self.clock(), state != "released"
        tx.set_control(
            Control(
                target=target,
                hold=state == "held",
                killed=state == "killed",
                detached=state == "detached",
                actor="loop" if stands else None,
                reason="latency" if stands else None,
                since_us=since_us if stands else None,
            )
        )
        details = {"since_us": since_us, "reason": "latency"}
        self._append(tx, f"control.{state}", target, target, details)

    def _plain(self, tx: Tx, rng: Random) -> None:
        figures = {"ratio": rng.random(), "words": 'Grüße ☂ " \\ \n'}
        self._append(tx, "rule.fired", "slow", rng.choice(TARGETS), figures)

    def _append(self, tx: Tx, action: str, subject: str, target: str, details: Any) -> None:
        tx.append_audit(
            at_us=self.clock(),
            actor="loop",
            action=action,
            subject=subject,
            target=target,
            details=details,
        )

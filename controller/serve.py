"""The loop's shell: load, look, step, commit, act; one thread a target, ten times a second.

Everything decided is committed before anything is done about it, so a crash between the two only
delays the act: the next start sees desired ≠ observed and acts. Fail static: when the bus, the
store or this process is gone, engines keep their settings.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from random import Random

import msgspec

from controller import loop
from controller.act_journal import record
from controller.asking import asked_of
from controller.baselines import baseline_in_force
from controller.carried_over import carry_over, left_over, note_of
from controller.considering import remembered
from controller.desired import Wishes
from controller.drift.following import DriftState
from controller.drift.noting import drift_note, due_drift, noted_drift
from controller.fleet import Fleet
from controller.following import MANY, follow_latch, follows
from controller.holdback.drawing import holdback_of
from controller.latch import Changes, Latched, standing
from controller.looking import Looker
from controller.notes import key_of, noted
from controller.past import ReplicaPast, due
from controller.rule_notes import rule_notes
from controller.rules.firing import Rules, Timers
from controller.rules.swapping import carried
from controller.state import LOOP, Declared, LastRead, LoopState, Seen, Step
from controller.store.port import Store, Tx
from controller.wishes import Lower
from policies.ids import new_id
from policies.runtime_config import RuntimeConfig
from signals.errors import Conflict, Unavailable
from signals.events import MICROS

log = logging.getLogger(__name__)

PATIENCE = 3
"""Races that the loop loses in a row before it decides while it holds the store."""


class TargetLoop:
    """Runs ``loop.step`` for one target until stopped."""

    def __init__(
        self,
        declared: Declared,
        store: Store,
        fleet: Fleet,
        looker: Looker,
        *,
        ours: str,
        clock: Callable[[], int],
        mono: Callable[[], float] = time.monotonic,
        entropy: Callable[[int], bytes],
    ) -> None:
        self._declared = declared
        self._store = store
        self._fleet = fleet
        self._looker = looker
        self._ours = ours
        self._clock = clock
        self._mono = mono
        self._entropy = entropy
        self.lower: Lower | None = None
        self._timers = Timers()
        self._next_rules: Rules | None = None
        self._last_reads: Mapping[str, LastRead] = {}
        self._told: frozenset[str] = frozenset()
        self._past: Mapping[str, ReplicaPast] = {}
        self._noted_past: Mapping[str, ReplicaPast] = {}
        self._noted: Mapping[str, str] | None = None
        self._drift: DriftState | None = None
        self._noted_drift = DriftState()
        self._loaded: tuple[tuple[int, Changes], LoopState] | None = None
        self._lost = 0
        self._carried_over = False
        self._wake = threading.Event()
        self._stop = threading.Event()
        self.failed: BaseException | None = None
        self.steps = 0

    def wake(self) -> None:
        """Make the loop look at once."""
        self._wake.set()

    @property
    def timers(self) -> Timers:
        """How the rules stood at the last step."""
        return self._timers

    def swap(self, rules: Rules) -> None:
        """Go by other rules from the next step on; unchanged conditions keep their timers."""
        self._next_rules = rules
        self.wake()

    def stop(self) -> None:
        """Ask ``run`` to return."""
        self._stop.set()
        self._wake.set()

    def run(self) -> None:
        """Step until stopped. A broken invariant ends it loudly (``failed``)."""
        try:
            while not self._stop.is_set():
                again = self._tick_or_wait()
                self._wake.wait(0.0 if again else self._declared.serve.tick_ms / 1000)
                self._wake.clear()
        except BaseException as error:
            self.failed = error
            raise

    def _tick_or_wait(self) -> bool:
        try:
            return self.tick()
        except Unavailable as error:
            log.warning("loop of %s waits: %s", self._declared.name, error.detail)
        except Conflict as error:
            log.info("loop of %s lost a race: %s", self._declared.name, error.detail)
        return False

    def tick(self) -> bool:
        """One step. Answers whether the engine was changed, so that reading back can't wait."""
        self._take_rules()
        now_us = self._clock()
        changes = self._fleet.latch.changes(self._declared.name)
        self._record_acts()
        state = self._load(changes, now_us)
        waiting = any(policy.state == "approved" for policy in state.policies)
        seen = self._looker.look(
            state.trial,
            now_us=now_us,
            mono_s=self._mono(),
            plant=waiting,
            drift_us=state.drift.to_us,
            holdback=holdback_of(state.noted),
            episodes=rule_notes(state.noted).episodes.values(),
            confirming=state.asked.confirming,
        )
        if self._carries_over(seen, now_us):
            return True
        replicas = self._replicas()
        seen = msgspec.structs.replace(seen, replicas=replicas, others=self._others())
        step = self._committed(state, seen, changes, now_us)
        self._timers, self._last_reads, self._told = step.timers, step.last_reads, step.told
        self._past, self._noted, self._drift = step.past, step.noted, step.drift
        self.steps += 1
        return self._act(step, seen, standing(changes), now_us)

    def _take_rules(self) -> None:
        rules, self._next_rules = self._next_rules, None
        if rules is None:
            return
        self._timers = carried(self._timers, self._declared.rules, rules)
        self._declared = msgspec.structs.replace(self._declared, rules=rules)
        self._loaded = None

    def _record_acts(self) -> None:
        """Put acts that the store could not hear of into the audit."""
        journal = self._fleet.journal
        acts = journal.pending(self._declared.name)
        if not acts:
            return
        with self._store.write() as tx:
            for act in acts:
                record(tx, act)
        for act in acts:
            journal.forget(act)

    def _carries_over(self, seen: Seen, now_us: int) -> bool:
        """Take over what the version before had noted, once the replica it is of is seen."""
        if self._carried_over or seen.observed is None:
            return False
        name = self._declared.name
        with self._store.read() as tx:
            left = left_over(tx, name)
        if left:
            with self._store.write() as tx:
                carry_over(
                    tx,
                    name,
                    seen.observed.replica,
                    now_us=now_us,
                    new_id=lambda: new_id("pin", now_us, self._entropy(8)),
                )
        self._carried_over = True
        return left

    def _load(self, latch: Changes, now_us: int) -> LoopState:
        """What the store says, read again only when something was written since."""
        writes = self._store.writes
        if self._loaded is None or self._loaded[0] != (writes, latch):
            self._loaded = ((writes, latch), self._read(latch, now_us))
        return self._with_memory(self._loaded[1])

    def _with_memory(self, state: LoopState) -> LoopState:
        """The state with what only this process remembers."""
        return msgspec.structs.replace(
            state,
            timers=self._timers,
            last_reads=self._last_reads,
            told=self._told,
            past=self._past,
            noted=self._noted or {},
            drift=self._drift or DriftState(),
        )

    def _replicas(self) -> tuple[RuntimeConfig, ...]:
        """What each replica last showed; those beside the first are asked without waiting."""
        replicas = self._fleet.of(self._declared.name)
        max_age_s = self._declared.serve.reconcile_ms / 1000
        if len(replicas) > 1:
            self._fleet.look(replicas[1:], max_age_s=max_age_s, wait_s=0.0)
        return tuple(one.seen for one in replicas if one.seen is not None)

    def _others(self) -> tuple[RuntimeConfig, ...]:
        """Those beside the first that answered when they were asked last."""
        shown = (one.shown() for one in self._fleet.of(self._declared.name)[1:])
        return tuple(one for one in shown if one is not None)

    def _read(self, latch: Changes, now_us: int) -> LoopState:
        name = self._declared.name
        with self._store.read() as tx:
            state, followed = self._state(tx, now_us), follows(tx, name, latch)
            if not self._last_reads:
                self._last_reads = _stored_last_reads(tx, name)
            if not self._past:
                self._past = self._noted_past = _stored_past(tx, name)
            self._noted = noted(tx, name)
            if self._drift is None:
                self._drift = self._noted_drift = noted_drift(tx.note(drift_note(name)))
        if not followed:
            with self._store.write() as tx:
                follow_latch(tx, name, self._fleet.latch.changes(name), now_us=now_us)
            return self._read(self._fleet.latch.changes(name), now_us)
        self.lower = Lower(
            baseline=state.baseline, policies=state.policies, overrides=state.overrides
        )
        return state

    def _state(self, tx: Tx, now_us: int) -> LoopState:
        name = self._declared.name
        settled_us = now_us - self._declared.guardrails.settle_s * MICROS
        trials = tx.trials(target=name, running=True, limit=1)
        policies = remembered(tx, name)
        return LoopState(
            declared=self._declared,
            policies=policies,
            trial=trials[0] if trials else None,
            control=tx.control(name),
            modes=tx.modes(name),
            baseline=baseline_in_force(tx.baseline(name), self._declared.target),
            overrides=tuple(tx.overrides(target=name, state="active", limit=MANY)),
            changes=tuple(tx.declared_changes(target=name, from_us=settled_us, limit=MANY)),
            last_reads=self._last_reads,
            timers=self._timers,
            ours=self._ours,
            asked=asked_of(tx, policies, now_us=now_us),
        )

    def _step(self, state: LoopState, seen: Seen, now_us: int) -> Step:
        return loop.step(state, seen, now_us=now_us, rng=Random(self._entropy(16)))

    def _committed(self, state: LoopState, seen: Seen, latch: Changes, now_us: int) -> Step:
        """Decide, and write all of it or nothing; idle steps write nothing.

        Raises ``Conflict`` when somebody changed meanwhile what was decided from: an operator's act
        is never overtaken by a step that did not know of it. After ``PATIENCE`` lost races it is
        decided anew while nobody else can write, so that busy operators can't starve the loop.
        """
        step = self._step(state, seen, now_us)
        if not self._writes(step):
            return step
        loaded = None if self._loaded is None else self._loaded[0][0]
        with self._store.write() as tx:
            if self._store.writes != loaded:
                now = self._with_memory(self._state(tx, now_us))
                if now != state or not follows(tx, self._declared.name, latch):
                    step = self._decided_anew(state, now, seen, now_us)
            self._write(tx, step, now_us)
        self._lost = 0
        if self._notes_past(step):
            self._noted_past = step.past
        if self._notes_drift(step):
            self._noted_drift = step.drift
        return step

    def _decided_anew(self, before: LoopState, now: LoopState, seen: Seen, now_us: int) -> Step:
        """Of the rows that were looked up for another trial nothing is known: a blind look."""
        self._lost += 1
        if self._lost <= PATIENCE:
            raise Conflict("the store moved on while the loop was deciding")
        if now.trial != before.trial:
            seen = msgspec.structs.replace(seen, due={}, open_counts={}, blind=True)
        return self._step(now, seen, now_us)

    def _notes_past(self, step: Step) -> bool:
        every_us = self._declared.serve.read_noted_s * MICROS
        return bool(step.segments) or due(step.past, self._noted_past, every_us=every_us)

    def _notes_drift(self, step: Step) -> bool:
        return due_drift(step.drift, self._noted_drift, self._declared.drift)

    def _writes(self, step: Step) -> bool:
        changed = (
            step.born,
            step.moves,
            step.amends,
            step.facts,
            step.adopted,
            step.ended,
            step.decisions,
        )
        memory = step.last_reads != self._last_reads or step.noted != self._noted
        memory = memory or self._notes_past(step) or self._notes_drift(step)
        return any(changed) or step.trial is not None or memory

    def _write(self, tx: Tx, step: Step, now_us: int) -> None:
        name = self._declared.name
        for policy in step.born:
            tx.add_policy(policy)
        for fact in step.facts:
            tx.append_audit(
                at_us=now_us,
                actor=LOOP,
                action=fact.action,
                subject=fact.subject,
                target=name,
                details=fact.details,
            )
        for move in step.moves:
            tx.move(move.policy, move.after, actor=move.actor, at_us=now_us, **move.changes)
        for one in step.amends:
            tx.amend(one.policy, one.what, actor=LOOP, at_us=now_us, **one.changes)
        if step.trial is not None:
            tx.save_trial(step.trial)
        for adopted in step.adopted:
            tx.add_override(adopted)
        for ended in step.ended:
            tx.end_override(ended.override, cause=ended.cause, actor=LOOP, at_us=now_us)
        for decision in step.decisions:
            tx.add_decision(decision)
        for learner in step.learners:
            tx.keep_learner(name, learner.digest, learner.body, at_us=now_us)
        if step.last_reads != self._last_reads:
            tx.set_note(note_of(name), msgspec.json.encode(step.last_reads).decode())
        if step.noted != self._noted:
            tx.set_note(key_of(name), msgspec.json.encode(step.noted, order="sorted").decode())
        for segment in step.segments:
            tx.add_segment(segment, actor=LOOP, at_us=now_us)
        if self._notes_past(step):
            tx.set_note(f"past:{name}", msgspec.json.encode(step.past).decode())
        if self._notes_drift(step):
            tx.set_note(drift_note(name), msgspec.json.encode(step.drift).decode())

    def _act(self, step: Step, seen: Seen, latched: Latched | None, now_us: int) -> bool:
        """Bring the wish to the engine. The latch is read again right before each PATCH."""
        if latched is not None and latched.state == "detached":
            return False
        before = self._fleet.first(self._declared.name).seen
        for reached in self._fleet.reconcile(
            self._declared.name,
            Wishes(shared=step.desired, apart=dict(step.apart)),
            now_us=now_us,
            under=latched,
            after=seen.observed,
        ):
            if not reached.ok:
                log.warning("%s: %s", reached.replica, reached.detail)
        after = self._fleet.first(self._declared.name).seen
        return before is not after


def _stored_last_reads(tx: Tx, target: str) -> dict[str, LastRead]:
    body = tx.note(note_of(target))
    return {} if body is None else msgspec.json.decode(body, type=dict[str, LastRead])


def _stored_past(tx: Tx, target: str) -> dict[str, ReplicaPast]:
    body = tx.note(f"past:{target}")
    return {} if body is None else msgspec.json.decode(body, type=dict[str, ReplicaPast])

"""The loop's shell: load, look, step, commit, act; one thread a target, ten times a second.

Everything decided is committed before anything is done about it, so a crash between the two only
delays the act: the next start sees desired ≠ observed and acts. Fail static: when the bus, the
store or this process is gone, engines keep their settings.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from random import Random

import msgspec

from controller import loop
from controller.control import MANY, follow_latch, follows
from controller.fleet import Fleet
from controller.latch import Latched
from controller.looking import Looker
from controller.rules.firing import Timers
from controller.state import LOOP, Declared, LastRead, LoopState, Seen, Step
from controller.store.port import Store, Tx
from policies.lifecycle import FINAL, STATES
from policies.policy import Policy
from signals.errors import Conflict, Unavailable

log = logging.getLogger(__name__)

ACTIVE = tuple(state for state in STATES if state not in FINAL)
ENDED = tuple(state for state in STATES if state in FINAL)
RECENTLY_ENDED = 500


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
        self._timers = Timers()
        self._last_read: LastRead | None = None
        self._told: frozenset[str] = frozenset()
        self._loaded: tuple[tuple[int, Latched | None], LoopState] | None = None
        self._wake = threading.Event()
        self._stop = threading.Event()
        self.failed: BaseException | None = None
        self.steps = 0

    def wake(self) -> None:
        """Make the loop look at once."""
        self._wake.set()

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
        now_us = self._clock()
        latched = self._fleet.latch.read().get(self._declared.name)
        state = self._load(latched, now_us)
        waiting = any(policy.state == "approved" for policy in state.policies)
        seen = self._looker.look(state.trial, now_us=now_us, mono_s=self._mono(), plant=waiting)
        step = loop.step(state, seen, now_us=now_us, rng=Random(self._entropy(16)))
        self._commit(step, now_us)
        self._timers, self._last_read, self._told = step.timers, step.last_read, step.told
        self.steps += 1
        return self._act(step, seen, latched, now_us)

    def _load(self, latched: Latched | None, now_us: int) -> LoopState:
        """What the store says, read again only when something was written since."""
        writes = self._store.writes
        if self._loaded is None or self._loaded[0] != (writes, latched):
            self._loaded = ((writes, latched), self._read(latched, now_us))
        state = self._loaded[1]
        return msgspec.structs.replace(
            state, timers=self._timers, last_read=self._last_read, told=self._told
        )

    def _read(self, latched: Latched | None, now_us: int) -> LoopState:
        name = self._declared.name
        with self._store.read() as tx:
            control = tx.control(name)
            policies = _policies(tx, name)
            trials = tx.trials(target=name, running=True, limit=1)
            modes, foreign = tx.modes(name), tuple(tx.foreign(name))
            last = self._last_read or _stored_last_read(tx, name)
        if not follows(control, latched):
            actor = LOOP if latched is None else latched.actor
            with self._store.write() as tx:
                follow_latch(tx, name, latched, actor=actor, now_us=now_us)
            return self._read(latched, now_us)
        self._last_read = last
        return LoopState(
            declared=self._declared,
            policies=policies,
            trial=trials[0] if trials else None,
            control=control,
            modes=modes,
            foreign=foreign,
            last_read=last,
            timers=self._timers,
            ours=self._ours,
        )

    def _commit(self, step: Step, now_us: int) -> None:
        """All of it or nothing; idle steps write nothing.

        Raises ``Conflict`` when anything was written since the state was loaded: an operator's act
        is never overtaken by a step that did not know of it.
        """
        if not _writes(step, self._last_read):
            return
        name = self._declared.name
        loaded = None if self._loaded is None else self._loaded[0][0]
        with self._store.write() as tx:
            if self._store.writes != loaded:
                raise Conflict("the store moved on while the loop was deciding")
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
            if step.trial is not None:
                tx.save_trial(step.trial)
            for found in step.foreign:
                tx.set_foreign(found)
            for knob in step.cleared:
                tx.clear_foreign(name, knob)
            for decision in step.decisions:
                tx.add_decision(decision)
            if step.last_read is not None:
                body = msgspec.json.encode(step.last_read).decode()
                tx.set_note(f"last_read:{name}", body)

    def _act(self, step: Step, seen: Seen, latched: Latched | None, now_us: int) -> bool:
        """Bring the wish to the engine. The latch is read again right before each PATCH."""
        if seen.observed is None:
            return False
        before = self._fleet.first(self._declared.name).seen
        for reached in self._fleet.bring(
            self._declared.name, step.desired, now_us=now_us, under=latched, after=seen.observed
        ):
            if not reached.ok:
                log.warning("%s: %s", reached.replica, reached.detail)
        after = self._fleet.first(self._declared.name).seen
        return before is not after


def _policies(tx: Tx, target: str) -> tuple[Policy, ...]:
    active = tx.policies(target=target, states=ACTIVE, limit=MANY)
    ended = tx.policies(target=target, states=ENDED, limit=RECENTLY_ENDED)
    return (*active, *ended)


def _stored_last_read(tx: Tx, target: str) -> LastRead | None:
    body = tx.note(f"last_read:{target}")
    return None if body is None else msgspec.json.decode(body, type=LastRead)


def _writes(step: Step, last_read: LastRead | None) -> bool:
    changed = (
        step.born or step.moves or step.facts or step.foreign or step.cleared or step.decisions
    )
    return bool(changed) or step.trial is not None or step.last_read != last_read

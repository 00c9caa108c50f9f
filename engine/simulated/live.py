"""The settings of a simulated replica: the real book and meter, and when to look at them again.

The idea: between arrivals a law's variable can only fall, and does so no sooner than its oldest
arrival leaves the window; an expiry is due when it is due. So a run of steps goes on without asking
the book until the first of these (``look_at_us``), and the book then does what it would have done
at each boundary before: nothing.
"""

from __future__ import annotations

import math

from engine.arriving import Arm, Arriving
from engine.generation import CLASSES, Limits
from engine.knobs import ACTIVE_CAP, ANSWER_TOKENS, STEP_TOKEN_BUDGET
from engine.laws_running import RunningLaw
from engine.metering import ArrivalMeter
from engine.settings_book import SettingsBook
from engine.settings_in_force import EngineIdentity, Instant
from engine.simulated.spec import PREFIX_RETENTION, ReplicaSpec
from engine.simulated.visit import Visit
from policies.runtime_config import Patch, RuntimeConfig, Stamp
from signals.events import MICROS

REMEMBERED = 256
"""Answers to patches kept for callers that repeat one."""


class Settings:
    """One incarnation's. Times are simulated µs; ``skew_us`` is what its wall clock is off by."""

    def __init__(self, identity: EngineIdentity, spec: ReplicaSpec, at_us: float) -> None:
        self.skew_us = 0
        self.look_at_us = 0.0
        self._meter = ArrivalMeter(CLASSES)
        self._book = SettingsBook(
            identity,
            spec.knobs(),
            self._meter,
            CLASSES,
            remembered=REMEMBERED,
            now=self._instant(at_us),
        )
        self._target = identity.target
        self._told: tuple[float, Arriving] = (at_us, self._book.arriving)
        self._has_laws = False
        self._take_over(at_us)

    @property
    def stamp(self) -> Stamp:
        """The settings in force."""
        return self._book.stamp

    def values(self) -> dict[str, int]:
        """The number in force of every knob."""
        return self._book.values()

    def arm_of(self, visit: Visit) -> Arm:
        """Where an arrival belongs: its session, or without one the request itself.

        What arrived while a step ran belongs to what was in force during that step.
        """
        since_us, before = self._told
        arriving = before if visit.arrival_us < since_us else self._book.arriving
        if arriving.split is None:
            return arriving.baseline
        return arriving.of(visit.offered.session or visit.request_id(self._target))

    def arrive(self, visit: Visit) -> int:
        """Count one arrival; its stamp for ever, and its bound. The tokens that it offers."""
        arm, offered = self.arm_of(visit), visit.offered
        visit.stamp = arm.stamp
        if ANSWER_TOKENS in arm.settings:
            visit.bound(arm.value(ANSWER_TOKENS, visit.intent) or offered.output_tokens)
        tokens = visit.offered.prompt_tokens + visit.offered.output_tokens
        self._meter.note(offered.class_, tokens=tokens, now_s=visit.arrival_us / MICROS)
        if self._has_laws:
            self.look_at_us = 0.0
        return tokens

    def look(self, at_us: float) -> None:
        """Come to a boundary: expiries that are due, then every law."""
        before = self._book.arriving
        self._book.pass_time(self._instant(at_us))
        self._moved_from(before, at_us)
        self._take_over(at_us)

    def apply(self, patch: Patch, at_us: float, running: int) -> RuntimeConfig:
        """Apply a patch whole, or raise ``Rejected``/``Conflict`` and change nothing."""
        before = self._book.arriving
        answer = self._book.apply(patch, self._instant(at_us), running=running)
        self._moved_from(before, at_us)
        self._take_over(at_us)
        return answer

    def view(self, at_us: float, running: int, *, after_seq: int = -1) -> RuntimeConfig:
        """What is in force, and the changes numbered above ``after_seq``."""
        return self._book.view(self._instant(at_us), after_seq=after_seq, running=running)

    def _instant(self, at_us: float) -> Instant:
        return Instant(mono_s=at_us / MICROS, wall_s=(at_us + self.skew_us) / MICROS)

    def _moved_from(self, before: Arriving, at_us: float) -> None:
        changed = before.baseline.stamp is not self._book.arriving.baseline.stamp
        if changed and self._told[0] < at_us:
            self._told = (at_us, before)

    def _take_over(self, at_us: float) -> None:
        book = self._book
        cap = book.setting(ACTIVE_CAP)
        self.limits = Limits(
            active_cap=cap.observed,
            step_token_budget=book.setting(STEP_TOKEN_BUDGET).observed,
            shrink=cap.shrink,
        )
        has_cache = PREFIX_RETENTION in book.specs
        self.retention = book.setting(PREFIX_RETENTION).observed if has_cache else 0
        running = book.running_laws
        self._has_laws = bool(running) and not book.held
        self.look_at_us = MICROS * book.next_expiry_s(self._instant(at_us))
        if self._has_laws:
            falls_s = min(self._falls_s(law, at_us / MICROS) for law in running)
            self.look_at_us = min(self.look_at_us, MICROS * falls_s)

    def _falls_s(self, running: RunningLaw, now_s: float) -> float:
        """Until when a law cannot move unless something arrives."""
        law, state = running.law, running.state
        if state.level == 0:
            return math.inf
        if now_s - state.since_s < law.min_dwell_s:
            return state.since_s + law.min_dwell_s
        return self._meter.next_fall_s(law.class_, window_s=law.window_s, now_s=now_s)

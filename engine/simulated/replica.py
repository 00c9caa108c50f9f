"""One simulated engine, from boundary to boundary.

``at_us`` is the step boundary where it stands. ``advance(until_us)`` takes every step that begins
before; the last one may end later, as a real step that is under way would. How a life is cut into
calls of ``advance`` changes nothing in it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

from numpy.random import default_rng

from engine.settings_in_force import EngineIdentity
from engine.simulated.faults import (
    MEMORY_EXHAUSTED,
    RESTARTED,
    ClockSkew,
    Fault,
    MemoryShrinks,
    Refuses,
    Restart,
    Slowdown,
    Stall,
    TelemetryLoss,
)
from engine.simulated.live import Settings
from engine.simulated.prefix_cache import PrefixCache
from engine.simulated.scheduler import Scheduler
from engine.simulated.seconds import Seconds
from engine.simulated.spec import ReplicaSpec
from engine.simulated.step_times import Noise
from engine.simulated.visit import Visit
from policies.runtime_config import Patch, RuntimeConfig
from signals.errors import Rejected, Unavailable

AWAY = "engine away"


class Replica:
    """See the module. ``deaths``: when it died, and of what."""

    lines: Scheduler
    settings: Settings

    def __init__(
        self, name: str, target: str, spec: ReplicaSpec, faults: Sequence[Fault], seed: int
    ) -> None:
        self.name = name
        self.spec = spec
        self.at_us = 0.0
        self.deaths: list[tuple[float, str]] = []
        self.seconds = Seconds(spec.second_us, 0.0)
        self._target = target
        self._rng = default_rng(seed)
        self._faults = deque(sorted(faults, key=lambda one: one.at_us))
        self._refusals = [one for one in faults if isinstance(one, Refuses)]
        self._losses = [one for one in faults if isinstance(one, TelemetryLoss)]
        self._skews = [one for one in self._faults if isinstance(one, ClockSkew)]
        self._inbox: deque[Visit] = deque()
        self._noise = Noise(spec.step_times.noise_sd, self._rng)
        self._factors = self._noise.draw()
        self._factor_at = 0
        self._slower = 1.0
        self._memory = spec.kv_blocks if spec.memory_blocks is None else spec.memory_blocks
        self._back_us: float | None = None
        self._boot()

    # -- what a driver asks --------------------------------------------------------------------

    @property
    def up(self) -> bool:
        """Whether it serves now."""
        return self._back_us is None

    @property
    def load(self) -> int:
        """Requests it has not ended."""
        return self.lines.waits + len(self.lines.running) + len(self._inbox)

    @property
    def incarnation(self) -> str:
        """That of its present life, or of its last."""
        return self.settings.stamp.incarnation

    def view(self, *, after_seq: int = -1) -> RuntimeConfig:
        """What is in force, as GET answers it. Raises ``Unavailable`` while it is away."""
        self._check_up()
        return self.settings.view(self.at_us, len(self.lines.running), after_seq=after_seq)

    def patch(self, patch: Patch) -> RuntimeConfig:
        """Apply a patch at the boundary where it stands, as PATCH does.

        Raises ``Rejected`` or ``Conflict`` as the book does, ``Unavailable`` while it is away, and
        either of them during ``Refuses``.
        """
        self._check_up()
        self._check_willing()
        before = self.settings.stamp
        answer = self.settings.apply(patch, self.at_us, len(self.lines.running))
        if before is not self.settings.stamp:
            self._close_second()
        self._take_over()
        return answer

    def lost(self, at_us: float) -> bool:
        """Whether a record that it sends then is lost."""
        return any(one.at_us <= at_us < one.at_us + one.for_us for one in self._losses)

    def lost_between(self, from_us: int, to_us: int) -> bool:
        """Whether records of some moment in (from, to] are lost."""
        return any(one.at_us <= to_us and from_us < one.at_us + one.for_us for one in self._losses)

    def gaps(self, by_us: int) -> int:
        """Gaps in its sequence so far."""
        return sum(one.at_us + one.for_us <= by_us for one in self._losses)

    @property
    def keeps_time(self) -> bool:
        """Whether its wall clock is right for ever."""
        return not self._skews

    def skew_us(self, at_us: float) -> int:
        """What its wall clock is off by then."""
        if not self._skews:
            return 0
        return next((one.skew_us for one in reversed(self._skews) if one.at_us <= at_us), 0)

    # -- what the fleet does -------------------------------------------------------------------

    def offer(self, visit: Visit) -> None:
        """A request will arrive at ``visit.arrival_us``; by arrival, none before ``at_us``'s step.

        Raises ``Rejected`` for a prefix that its KV blocks cannot be shared by.
        """
        offered = visit.offered
        if offered.prefix and offered.prefix_tokens % self.spec.block_tokens:
            raise Rejected(
                "a prefix block is whole KV blocks",
                field="prefix_tokens",
                value=offered.prefix_tokens,
                allowed=f"a multiple of {self.spec.block_tokens}",
            )
        self._inbox.append(visit)

    def advance(self, until_us: float) -> None:
        """Take every step that begins before ``until_us``. Arrivals until then are known."""
        while self.at_us < until_us:
            if self._suffer():
                continue
            if self._back_us is not None:
                self._stay_away(until_us, self._back_us)
                continue
            self._come_to_boundary()
            lines, limits = self.lines, self.settings.limits
            lines.admit(limits, self.at_us)
            count = lines.run_length(limits.step_token_budget)
            if count:
                self._take_equal_steps(count, self._horizon_us(until_us))
            elif lines.running:
                self._take_step(limits.step_token_budget)
            else:
                self.at_us = max(self._horizon_us(until_us), self.at_us + 1.0)
        if self._inbox:
            self._take_in()

    # -- steps ---------------------------------------------------------------------------------

    def _come_to_boundary(self) -> None:
        if self._inbox and self._inbox[0].arrival_us <= self.at_us:
            self._take_in()
        if self.at_us >= self.settings.look_at_us:
            self._look()
        if self.at_us >= self.seconds.due_us:
            self._close_second()

    def _horizon_us(self, until_us: float) -> float:
        """When a boundary next has something to do, if nobody ends before."""
        return min(
            until_us,
            self.seconds.due_us,
            self.settings.look_at_us,
            self._inbox[0].arrival_us if self._inbox else math.inf,
            self._faults[0].at_us if self._faults else math.inf,
        )

    def _take_equal_steps(self, most: int, horizon_us: float) -> None:
        """Steps of pure decoding, until the boundary at or after ``horizon_us``."""
        lines, times = self.lines, self.spec.step_times
        if self._factor_at == len(self._factors):
            self._factors, self._factor_at = self._noise.draw(), 0
        decode = lines.decodes
        step_us = self._slower * times.step_us(decode=decode, prefill=0, context=lines.context)
        longer_us = self._slower * times.per_context_us * decode
        at_us, squares, count = self.at_us, 0.0, 0
        for factor in self._factors[self._factor_at : self._factor_at + most]:
            took_us = step_us * factor
            at_us += took_us
            squares += took_us * took_us
            step_us += longer_us
            count += 1
            if at_us >= horizon_us:
                break
        self._factor_at += count
        self.seconds.equal_steps(count, decode, at_us - self.at_us, squares, lines.decoding)
        self.at_us = at_us
        self._finish(lines.pass_steps(count))

    def _take_step(self, budget: int) -> None:
        """One step with prompts in it, or under pressure."""
        lines = self.lines
        step = lines.plan(budget)
        if step.blocks > lines.memory:
            self._die(MEMORY_EXHAUSTED, self.spec.restart_us)
            return
        took_us = self._next_factor() * self.spec.step_times.step_us(
            decode=step.decode, prefill=step.prefill, context=step.context
        )
        self.at_us += took_us
        self.seconds.step(step.decode, step.prefill, took_us, step.drawing)
        drew, ended = lines.commit()
        for visit in drew:
            self.seconds.drew(visit.intent)
            if visit.first_us is None:
                visit.first_us = self.at_us
        self._finish(ended)

    def _next_factor(self) -> float:
        if self._factor_at == len(self._factors):
            self._factors, self._factor_at = self._noise.draw(), 0
        self._factor_at += 1
        return self._slower * self._factors[self._factor_at - 1]

    def _finish(self, ended: Sequence[Visit]) -> None:
        for visit in ended:
            self._seq += 1
            visit.end("ok", self.at_us)

    # -- arrivals and settings -----------------------------------------------------------------

    def _take_in(self) -> None:
        inbox, settings, lines = self._inbox, self.settings, self.lines
        while inbox and inbox[0].arrival_us <= self.at_us:
            visit = inbox.popleft()
            if self._back_us is not None:
                visit.stamp = settings.arm_of(visit).stamp
                visit.end("error", visit.arrival_us, AWAY)
                continue
            tokens = settings.arrive(visit)
            self.seconds.arrived(visit.intent, tokens)
            self._seq += 1
            if not lines.fits(tokens):
                visit.end("rejected", visit.arrival_us, f"{tokens} tokens do not fit the KV pool")
            elif lines.waits >= self.spec.max_queue:
                visit.end("rejected", visit.arrival_us, "queue full")
            else:
                lines.enqueue(visit)

    def _look(self) -> None:
        before = self.settings.stamp
        self.settings.look(self.at_us)
        if before is not self.settings.stamp:
            self._close_second()
        self._take_over()

    def _take_over(self) -> None:
        self._values = self.settings.values()
        self._stamp = self.settings.stamp
        cache = self.lines.cache
        if cache is not None and cache.retention != self.settings.retention:
            cache.retention = self.settings.retention
            self.lines.trim()

    def _close_second(self) -> None:
        """Under the stamp and the values in force until now."""
        if self.seconds.close(self.at_us, self._seq, self._stamp, self._values, self.lines):
            self._seq += 1

    def _check_up(self) -> None:
        if self._back_us is not None:
            raise Unavailable(f"{self.name} is away")

    def _check_willing(self) -> None:
        for one in self._refusals:
            if one.at_us <= self.at_us < one.at_us + one.for_us:
                if one.rejects:
                    raise Rejected(f"{self.name} refuses every change", field="settings")
                raise Unavailable(f"{self.name} takes no change now")

    # -- faults --------------------------------------------------------------------------------

    def _suffer(self) -> bool:
        """Let due faults come about; True when time has passed by it."""
        before_us = self.at_us
        while self._faults and self._faults[0].at_us <= self.at_us:
            fault = self._faults.popleft()
            if isinstance(fault, Slowdown):
                self._slower = fault.factor
            elif isinstance(fault, Stall):
                self.at_us = max(self.at_us, fault.at_us + fault.for_us)
            elif isinstance(fault, MemoryShrinks):
                self._memory = self.lines.memory = fault.blocks
            elif isinstance(fault, ClockSkew):
                self.settings.skew_us = fault.skew_us
            elif isinstance(fault, Restart) and self._back_us is None:
                self._die(RESTARTED, fault.down_us)
        return self.at_us > before_us

    def _die(self, cause: str, down_us: int) -> None:
        """What it had ends with an error, and its present record is never sent."""
        self.deaths.append((self.at_us, cause))
        for visit in self.lines.everybody():
            visit.end("error", self.at_us, cause)
        self.lines = self._empty_lines()
        self._back_us = self.at_us + down_us

    def _stay_away(self, until_us: float, back_us: float) -> None:
        self.at_us = max(self.at_us, min(until_us, back_us))
        self._take_in()
        if self.at_us >= back_us:
            self._back_us = None
            self._boot()

    def _boot(self) -> None:
        """A new life, in boot settings."""
        identity = EngineIdentity(
            target=self._target, replica=self.name, incarnation=self._rng.bytes(4).hex()
        )
        self.settings = Settings(identity, self.spec, self.at_us)
        self.settings.skew_us = self.skew_us(self.at_us)
        self.lines = self._empty_lines()
        self.seconds.restart(self.at_us)
        self._seq = 1
        self._take_over()

    def _empty_lines(self) -> Scheduler:
        spec = self.spec
        cache = PrefixCache(self.settings.retention) if spec.capacity_retention else None
        lines = Scheduler(capacity=spec.kv_blocks, block_tokens=spec.block_tokens, cache=cache)
        lines.memory = min(self._memory, spec.kv_blocks)
        return lines

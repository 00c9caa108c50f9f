"""What one step of the loop is given, and what it answers. Plain values; the shell acts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from random import Random
from typing import Any

import msgspec
from msgspec import Struct

from controller.config.sections import GuardrailSettings, ServeSettings, TrialSettings
from controller.config.targets import TargetSettings
from controller.desired import Desired
from controller.plant.settings import PlantSettings
from controller.rules.firing import Rules, Timers
from controller.store.port import Control, Decision, Foreign
from controller.trials import Trial, TrialPlan
from policies.ids import new_id
from policies.lifecycle import State, check_move
from policies.policy import Mode, Policy
from policies.runtime_config import RuntimeConfig
from signals.events import StepMoments
from signals.features.model import RequestRow, SecondRow

LOOP = "loop"
"""The principal that the loop's own acts are recorded under."""


class Declared(Struct, frozen=True, kw_only=True):
    """What files say, for one target. Changes only with a restart."""

    name: str
    target: TargetSettings
    rules: Rules
    trial: TrialSettings
    guardrails: GuardrailSettings
    serve: ServeSettings
    plant: PlantSettings = PlantSettings()


class LastRead(Struct, frozen=True, kw_only=True):
    """How far the engine's change log has been read, in which incarnation."""

    incarnation: str
    seq: int


class LoopState(Struct, frozen=True, kw_only=True):
    """Everything the loop remembers of one target. All of it survives a crash but the timers.

    ``policies``: those not final, and those that ended recently (for cooldowns), newest first.
    ``ours``: what every change id of this controller begins with. ``told``: denials recorded since
    the start, so that one that is repeated every few seconds is recorded once.
    """

    declared: Declared
    policies: tuple[Policy, ...]
    trial: Trial | None
    control: Control
    modes: Mapping[str, Mode]
    foreign: tuple[Foreign, ...]
    last_read: LastRead | None
    timers: Timers
    ours: str
    told: frozenset[str] = frozenset()


class BlockRows(Struct, frozen=True, kw_only=True):
    """All that is known of one block. ``incomplete``: telemetry has a gap in it."""

    requests: tuple[RequestRow, ...]
    seconds: tuple[SecondRow, ...]
    incomplete: bool


class BlockCounts(Struct, frozen=True, kw_only=True):
    """What is known of one running block: answers and errors so far, and when requests missed.

    ``misses_s``: seconds since the block began at which a request missed its SLO, sorted.
    """

    answered: int = 0
    errors: int = 0
    misses_s: tuple[float, ...] = ()


class PlantInput(Struct, frozen=True, kw_only=True):
    """What the plant model is fitted on: recent steps, the boot curve, the traffic's shape.

    ``arrivals``: per second of the last minutes, (end µs, {intent: arrivals}); ``offered``: the
    same of offered tokens. ``prefill_per_decode``: prompt tokens computed for each token decoded.
    ``deadline_s``: per intent, 95 % of its requests are decided this long after their arrival.
    ``drain_p95_s``: 95 % of running requests are done this long after they began to decode.
    """

    moments: StepMoments
    curve: tuple[tuple[int, int, int], ...]
    prefill_per_decode: float
    arrivals: tuple[tuple[int, dict[str, int]], ...]
    offered: tuple[tuple[int, dict[str, int]], ...]
    deadline_s: dict[str, float]
    drain_p95_s: float
    fingerprint: str


class Seen(Struct, frozen=True, kw_only=True):
    """What the world looks like now. Absent figures are absent, never zero.

    ``due``: rows of each block of the units that are ready to be judged. ``open_counts``: of the
    blocks of the open unit. ``plant`` is None on the steps where it was not looked at.
    """

    observed: RuntimeConfig | None
    features: Mapping[str, float]
    cursor: int
    closed_us: int
    due: Mapping[int, BlockRows] = {}
    open_counts: Mapping[int, BlockCounts] = {}
    plant: PlantInput | None = None
    blind: bool = False
    skew_us: int = 0


class Move(Struct, frozen=True, kw_only=True):
    """One lifecycle move. ``policy`` is as it was before; ``changes`` are set with the state."""

    policy: Policy
    after: State
    actor: str
    changes: dict[str, Any]


class Fact(Struct, frozen=True, kw_only=True):
    """Something to record in the audit that is not a move."""

    action: str
    subject: str
    details: dict[str, Any]


class Step(Struct, frozen=True, kw_only=True):
    """What one step decided. The shell commits all of it at once, then acts on ``desired``."""

    born: tuple[Policy, ...]
    moves: tuple[Move, ...]
    trial: Trial | None
    foreign: tuple[Foreign, ...]
    cleared: tuple[str, ...]
    decisions: tuple[Decision, ...]
    told: frozenset[str]
    facts: tuple[Fact, ...]
    last_read: LastRead | None
    timers: Timers
    desired: Desired


class Draft:
    """The step being made: the state as its phases change it, and the record of what they did."""

    def __init__(self, state: LoopState, *, now_us: int, rng: Random) -> None:
        self.state = state
        self.declared = state.declared
        self.now_us = now_us
        self.rng = rng
        self.policies: dict[str, Policy] = {p.id: p for p in state.policies}
        self.trial = state.trial
        self.foreign: dict[str, Foreign] = {f.knob: f for f in state.foreign}
        self.last_read = state.last_read
        self.timers = state.timers
        self.born: list[Policy] = []
        self.moves: list[Move] = []
        self.new_foreign: list[Foreign] = []
        self.cleared: list[str] = []
        self.told = state.told
        self.decisions: list[Decision] = []
        self.facts: list[Fact] = []

    def move(self, policy: Policy, after: State, *, actor: str = LOOP, **changes: Any) -> Policy:
        """Move a policy by the table and note it."""
        check_move(policy.id, policy.state, after)
        self.moves.append(Move(policy=policy, after=after, actor=actor, changes=changes))
        moved = msgspec.structs.replace(
            policy, state=after, updated_us=self.now_us, rev=policy.rev + 1, **changes
        )
        self.policies[policy.id] = moved
        return moved

    def bear(self, policy: Policy) -> Policy:
        """Add a new policy, in state proposed."""
        self.born.append(policy)
        self.policies[policy.id] = policy
        return policy

    def note(self, action: str, subject: str, **details: Any) -> None:
        """Record a fact in the audit."""
        self.facts.append(Fact(action=action, subject=subject, details=details))

    def note_plan(self, plan: TrialPlan) -> None:
        """Record a frozen plan, whole, before its first block."""
        self.note("trial.frozen", plan.id, policy=plan.policy_id, plan=msgspec.to_builtins(plan))

    def foreign_now(self) -> set[str]:
        """Knobs under a foreign change, which only observe."""
        return {f.knob for f in self.foreign.values() if f.until_us > self.now_us}

    def new_id(self, prefix: str) -> str:
        """A fresh id that sorts by time."""
        return new_id(prefix, self.now_us, self.rng.randbytes(8))

    def in_knob(self, knob: str, states: Collection[State]) -> list[Policy]:
        """Policies on one knob now in one of these states, oldest first."""
        return [p for p in self.in_state(*states) if p.knob == knob]

    def in_state(self, *states: State) -> list[Policy]:
        """Policies now in one of these states, oldest first."""
        found = (p for p in self.policies.values() if p.state in states)
        return sorted(found, key=lambda p: p.id)

"""What one step of the loop is given, and what it answers. Plain values; the shell acts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from random import Random
from typing import Any

import msgspec
from msgspec import Struct

from controller.config.acts import ControlSettings
from controller.config.emergencies import EmergencySettings
from controller.config.guardrails import GuardrailSettings
from controller.config.sections import ServeSettings, TrialSettings
from controller.config.targets import TargetSettings
from controller.desired import Desired
from controller.drift.blocks import DriftBlock
from controller.drift.following import DriftState
from controller.drift.settings import DriftSettings
from controller.learner.settings import LearnerSettings
from controller.past import ReplicaPast, record
from controller.plant.exhaustions import Exhaustion
from controller.plant.settings import PlantSettings
from controller.rules.firing import Rules, Timers
from controller.store.port import Control, Decision
from controller.trials import Trial, TrialPlan
from policies.changes import DeclaredChange
from policies.ids import new_id
from policies.in_force import Segment
from policies.lifecycle import State, check_move
from policies.overrides import Override
from policies.policy import Mode, Policy
from policies.runtime_config import Arm, RuntimeConfig
from policies.settings import Setting
from signals.events import KvLayout, StepMoments
from signals.features.model import Outcome, RequestRow, SecondRow
from signals.settings import MetricSettings

LOOP = "loop"
"""The principal that the loop's own acts are recorded under."""
MAX_TOLD = 256
"""Denials and waits remembered, so that each is recorded once."""


BREAK_GLASS = "break-glass."
"""Begins the change ids of acts past the controller when nobody can say how its own begin."""


class Declared(Struct, frozen=True, kw_only=True):
    """What files say, for one target. Only its rules change without a restart."""

    name: str
    target: TargetSettings
    rules: Rules
    trial: TrialSettings
    guardrails: GuardrailSettings
    serve: ServeSettings
    plant: PlantSettings = PlantSettings()
    learner: LearnerSettings = LearnerSettings()
    control: ControlSettings = ControlSettings()
    drift: DriftSettings = DriftSettings()
    emergencies: EmergencySettings = EmergencySettings()


class LastRead(Struct, frozen=True, kw_only=True):
    """How far one replica's change log has been read, in which incarnation."""

    incarnation: str
    seq: int


class Asked(Struct, frozen=True, kw_only=True):
    """Declared ``metrics`` in force; ``capped``: producers whose share of rates is bounded, who
    have no say in verdicts; ``confirming``: by policy that is kept provisionally, its trial."""

    metrics: Mapping[str, MetricSettings] = {}
    capped: tuple[str, ...] = ()
    confirming: Mapping[str, Trial] = {}


class LoopState(Struct, frozen=True, kw_only=True):
    """Everything the loop remembers of one target. All of it survives a crash but the timers.

    ``policies``: those not final, and those that ended recently (for cooldowns), newest first.
    ``ours``: what every change id of this controller begins with. ``told``: denials recorded since
    the start, so that one that is repeated every few seconds is recorded once. ``baseline``: by
    place, as it was declared last. ``overrides``: active ones. ``last_reads``: by replica.
    ``changes``: declared ones that are open, or ended within ``guardrails.settle_s``.
    ``noted``: by name, what a part of the loop keeps for itself; written when it has changed.
    ``drift``: what is usual, and an alarm; noted now and then, and whenever the alarm has changed.
    ``asked``: what is asked of users' feedback.
    """

    declared: Declared
    policies: tuple[Policy, ...]
    trial: Trial | None
    control: Control
    modes: Mapping[str, Mode]
    baseline: Mapping[str, Setting]
    overrides: tuple[Override, ...]
    last_reads: Mapping[str, LastRead]
    timers: Timers
    ours: str
    told: frozenset[str] = frozenset()
    changes: tuple[DeclaredChange, ...] = ()
    past: Mapping[str, ReplicaPast] = {}
    noted: Mapping[str, str] = {}
    drift: DriftState = DriftState()
    asked: Asked = Asked()


class BlockRows(Struct, frozen=True, kw_only=True):
    """All that is known of one block. ``incomplete``: telemetry has a gap in it. ``earlier``: those
    of its sessions that came in an earlier block of the trial, where sessions are split.
    ``outcomes``: what users said of its requests, where that is asked for."""

    requests: tuple[RequestRow, ...]
    seconds: tuple[SecondRow, ...]
    incomplete: bool
    earlier: frozenset[str] = frozenset()
    outcomes: tuple[Outcome, ...] = ()


class BlockCounts(Struct, frozen=True, kw_only=True):
    """What is known of one arm of a running block: answers and errors, and when requests missed.

    ``misses_s``: seconds since the block began at which a request missed its SLO, sorted.
    """

    answered: int = 0
    errors: int = 0
    misses_s: tuple[float, ...] = ()


class Traffic(Struct, frozen=True, kw_only=True):
    """The shape of one intent's recent requests: mean tokens, and how often some of them waited.

    ``output_cv2``: squared coefficient of variation of the output tokens. ``waiting_share``: of the
    seconds of all replicas.
    """

    prompt_tokens: float
    output_tokens: float
    output_cv2: float = 1.0
    waiting_share: float = 0.0


class PlantInput(Struct, frozen=True, kw_only=True):
    """What the plant model is fitted on: recent steps, the boot curve, the traffic's shape.

    ``arrivals``: per second of the last half hour, (end µs, {intent: arrivals}), all replicas
    together; ``offered``: the same of offered tokens. ``prefill_per_decode``: prompt tokens
    computed for each token decoded.
    ``deadline_s``: per intent, 95 % of its requests are decided this long after their arrival.
    ``drain_p95_s``: 95 % of running requests are done this long after they began to decode.
    ``points``: the steps of each second that are summed in ``moments``, by time. ``kv``: how the
    engine keeps keys and values (None: not announced), ``context_tokens``: how long the longer of
    its recent requests are, prompt and answer (0: none was seen). ``traffic``: by intent.
    ``exhausted``: lives of replicas that ended because memory was exhausted, as recent requests
    tell. ``with_session``: by intent, the share of its recent requests that name a session;
    ``new_sessions_per_s``: how many sessions began of late, one that is not named by each request.
    """

    moments: StepMoments
    curve: tuple[tuple[int, int, int], ...]
    prefill_per_decode: float
    arrivals: tuple[tuple[int, dict[str, int]], ...]
    offered: tuple[tuple[int, dict[str, int]], ...]
    deadline_s: dict[str, float]
    drain_p95_s: float
    fingerprint: str
    points: tuple[StepMoments, ...] = ()
    kv: KvLayout | None = None
    context_tokens: float = 0.0
    exhausted: tuple[Exhaustion, ...] = ()
    traffic: Mapping[str, Traffic] = {}
    with_session: Mapping[str, float] = {}
    new_sessions_per_s: Mapping[str, float] = {}


class Seen(Struct, frozen=True, kw_only=True):
    """What the world looks like now. Absent figures are absent, never zero.

    ``observed`` is the first replica, ``others`` are those of the rest that answer.
    ``held``: of the holdback's blocks that are ready to be counted, by index.
    ``due``: rows of each block of the units that are ready to be judged. ``open_counts``: of the
    blocks of the open unit, by index and arm. ``plant`` is None on the steps where it was not
    looked at.
    ``replicas``: what each one last showed, also those that do not answer now. ``drift``: blocks
    that closed since the last one that was taken in. ``episodes``: by policy, how those of rules
    ended whose horizon is over (None: no request ended in it).
    ``aged``: by policy that is to be confirmed, the rows of its trial's blocks, all old enough.
    """

    observed: RuntimeConfig | None
    others: tuple[RuntimeConfig, ...] = ()
    features: Mapping[str, float]
    cursor: int
    closed_us: int
    due: Mapping[int, BlockRows] = {}
    open_counts: Mapping[tuple[int, Arm], BlockCounts] = {}
    plant: PlantInput | None = None
    blind: bool = False
    skew_us: int = 0
    held: Mapping[int, BlockRows] = {}
    replicas: tuple[RuntimeConfig, ...] = ()
    drift: tuple[DriftBlock, ...] = ()
    episodes: Mapping[str, float | None] = {}
    aged: Mapping[str, Mapping[int, BlockRows]] = {}

    def counts(self, block: int, arm: Arm) -> BlockCounts:
        """Of one arm of a block of the open unit; nothing yet where nothing is known."""
        return self.open_counts.get((block, arm), BlockCounts())


class Move(Struct, frozen=True, kw_only=True):
    """One lifecycle move. ``policy`` is as it was before; ``changes`` are set with the state."""

    policy: Policy
    after: State
    actor: str
    changes: dict[str, Any]


class Amend(Struct, frozen=True, kw_only=True):
    """Fields of a policy that change while its state stays. ``what``: as ``policy.<what>``."""

    policy: Policy
    what: str
    changes: dict[str, Any]


class Fact(Struct, frozen=True, kw_only=True):
    """Something to record in the audit that is not a move."""

    action: str
    subject: str
    details: dict[str, Any]


class Ended(Struct, frozen=True, kw_only=True):
    """An override whose time is over, and why."""

    override: Override
    cause: str


class SavedLearner(Struct, frozen=True, kw_only=True):
    """What a learner knew when it drew, as text, under its digest: the draw can be made again."""

    digest: str
    body: str


class Step(Struct, frozen=True, kw_only=True):
    """What one step decided. The shell commits all of it at once, then acts on ``desired``.

    ``apart``: what replicas by name should have instead, while a crossover runs.
    ``adopted``: strangers' changes, each kept as a pin.
    """

    born: tuple[Policy, ...]
    moves: tuple[Move, ...]
    amends: tuple[Amend, ...] = ()
    trial: Trial | None
    adopted: tuple[Override, ...]
    ended: tuple[Ended, ...]
    decisions: tuple[Decision, ...]
    learners: tuple[SavedLearner, ...] = ()
    told: frozenset[str]
    facts: tuple[Fact, ...]
    last_reads: Mapping[str, LastRead]
    timers: Timers
    desired: Desired
    segments: tuple[Segment, ...] = ()
    past: Mapping[str, ReplicaPast] = {}
    apart: Mapping[str, Desired] = {}
    noted: Mapping[str, str] = {}
    drift: DriftState = DriftState()


class Draft:
    """The step being made: the state as its phases change it, and the record of what they did."""

    def __init__(self, state: LoopState, *, now_us: int, rng: Random) -> None:
        self.state = state
        self.declared = state.declared
        self.now_us = now_us
        self.rng = rng
        self.policies: dict[str, Policy] = {p.id: p for p in state.policies}
        self.trial = state.trial
        self.overrides: dict[str, Override] = {one.id: one for one in state.overrides}
        self.last_reads = dict(state.last_reads)
        self.timers = state.timers
        self.born: list[Policy] = []
        self.moves: list[Move] = []
        self.amends: list[Amend] = []
        self.adopted: list[Override] = []
        self.ended: list[Ended] = []
        self.told = state.told
        self.decisions: list[Decision] = []
        self.learners: list[SavedLearner] = []
        self.facts: list[Fact] = []
        self.past: dict[str, ReplicaPast] = dict(state.past)
        self.segments: list[Segment] = []
        self.noted: dict[str, str] = dict(state.noted)
        self.drift = state.drift

    def remember(self, seen: Seen) -> None:
        """Record what each replica had, as far as its log tells by now."""
        for shown in seen.replicas:
            self.past[shown.replica], new = record(self.past.get(shown.replica), shown)
            self.segments += new

    def move(self, policy: Policy, after: State, *, actor: str = LOOP, **changes: Any) -> Policy:
        """Move a policy by the table and note it."""
        check_move(policy.id, policy.state, after)
        self.moves.append(Move(policy=policy, after=after, actor=actor, changes=changes))
        moved = msgspec.structs.replace(
            policy, state=after, updated_us=self.now_us, rev=policy.rev + 1, **changes
        )
        self.policies[policy.id] = moved
        return moved

    def amend(self, policy: Policy, what: str, **changes: Any) -> Policy:
        """Change fields of a policy that this step does not move."""
        self.amends.append(Amend(policy=policy, what=what, changes=changes))
        amended = msgspec.structs.replace(
            policy, updated_us=self.now_us, rev=policy.rev + 1, **changes
        )
        self.policies[policy.id] = amended
        return amended

    def bear(self, policy: Policy) -> Policy:
        """Add a new policy, in state proposed."""
        self.born.append(policy)
        self.policies[policy.id] = policy
        return policy

    def note(self, action: str, subject: str, **details: Any) -> None:
        """Record a fact in the audit."""
        self.facts.append(Fact(action=action, subject=subject, details=details))

    def tell(self, key: str) -> bool:
        """Whether something is new; it is remembered, so that it is recorded once."""
        if key in self.told:
            return False
        self.told = frozenset([*self.told, key]) if len(self.told) < MAX_TOLD else frozenset([key])
        return True

    def note_plan(self, plan: TrialPlan) -> None:
        """Record a frozen plan, whole, before its first block."""
        self.note("trial.frozen", plan.id, policy=plan.policy_id, plan=msgspec.to_builtins(plan))

    def adopt(self, override: Override) -> None:
        """Keep what a stranger changed."""
        self.adopted.append(override)
        self.overrides[override.id] = override

    def end(self, override: Override, cause: str) -> None:
        """End an override."""
        del self.overrides[override.id]
        if override in self.adopted:
            self.adopted.remove(override)
        else:
            self.ended.append(Ended(override=override, cause=cause))

    def covering(self, knob: str, scope: str) -> Override | None:
        """The override that stands on a place now: nothing begins there. The oldest of several."""
        return next(
            (
                one
                for _, one in sorted(self.overrides.items())
                if one.covers(knob, scope, now_us=self.now_us)
            ),
            None,
        )

    def overridden(self) -> set[str]:
        """Knobs that a person or a stranger has set, at any scope; they only observe."""
        in_force = [one for one in self.overrides.values() if one.in_force(self.now_us)]
        return {one.knob for one in in_force if one.knob is not None and one.place is not None}

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

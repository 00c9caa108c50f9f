"""What a guardrail is given and what it answers. Pure values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from policies.budgets import TrialBudget
from policies.changes import DeclaredChange
from policies.knobs import KnobSpec
from policies.limits import Limits
from policies.overrides import Override
from policies.policy import Policy
from policies.proposal import Proposal

Who = Literal["loop", "person", "emergency"]
Outcome = Literal["pass", "deny", "wait", "exempt"]


class Finding(Struct, frozen=True, kw_only=True):
    """What one guardrail says. ``figures``: what it compared, also where it passes.

    ``wait``: it may become a policy, and begins when this passes. ``exempt``: the guardrail does
    not bind whoever proposed it. ``at``: whether a proposal is asked, or what wants to begin.
    """

    guardrail: str
    outcome: Outcome = "pass"
    words: str = ""
    figures: dict[str, float] = {}
    at: Literal["proposal", "start"] = "proposal"


class Denied(Struct, frozen=True, kw_only=True):
    """A proposal that may not become a policy: which guardrail, why, on what figures."""

    proposal: Proposal
    guardrail: str
    words: str
    figures: dict[str, float] = {}


class MemoryWall(Struct, frozen=True, kw_only=True):
    """Where memory was exhausted before: in predicted bytes, ``each_bytes`` for one of ``knob``.

    ``allowed_bytes``: what may be used now, a margin below ``wall_bytes``. ``context_tokens``: what
    one sequence is predicted to hold.
    """

    knob: str
    each_bytes: int
    allowed_bytes: int
    wall_bytes: int
    context_tokens: float


class Around(Struct, frozen=True, kw_only=True):
    """What is around a proposal, of one target.

    ``policies``: the open ones, the kept ones and those that ended lately. ``specs``: knobs as the
    engine reports them. ``overrides`` and ``changes``: those that may matter now. ``settle_us``:
    trials wait so long after a change. ``replicas``: of the target. ``trial``: the policy whose
    trial runs or is paused. ``wall``: None: memory was
    never exhausted. ``drift``: the alarm that stands, in words, and its figures.
    ``budget``: of trials, by scope. ``held_s``: until the holdback's block is over; 0: none runs.
    """

    policies: tuple[Policy, ...]
    specs: Mapping[str, KnobSpec]
    overrides: tuple[Override, ...] = ()
    changes: tuple[DeclaredChange, ...] = ()
    settle_us: int = 0
    replicas: int = 1
    trial: str | None = None
    wall: MemoryWall | None = None
    drift: str = ""
    drift_figures: Mapping[str, float] = {}
    budget: TrialBudget = TrialBudget()
    held_s: float = 0.0


class Case(Struct, frozen=True, kw_only=True):
    """One proposal before the guardrails.

    ``beside``: those that were admitted before it in the same step. ``own``: the id of its policy,
    once it is one, so that it does not stand in its own way.
    """

    proposal: Proposal
    around: Around
    limits: Limits
    now_us: int
    beside: tuple[Proposal, ...] = ()
    own: str | None = None

    @property
    def who(self) -> Who:
        """Which column of the table it is held to."""
        if self.proposal.emergency:
            return "emergency"
        return "person" if self.proposal.origin.kind == "person" else "loop"

    @property
    def others(self) -> tuple[Policy, ...]:
        """The target's policies without its own."""
        target, own = self.proposal.target, self.own
        return tuple(p for p in self.around.policies if p.target == target and p.id != own)

    @property
    def here(self) -> tuple[Policy, ...]:
        """Those on the same place."""
        place = self.proposal.place
        return tuple(policy for policy in self.others if policy.place == place)

    @property
    def spec(self) -> KnobSpec | None:
        """The knob, where the engine has it."""
        return self.around.specs.get(self.proposal.knob)

"""From declarations to figures: what guardrails and risk are given, for one place. Pure.

The loop, the operations of people and ``guardrails evaluate`` all ask here, so the three can't
disagree about a bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from controller.config.guardrails import limits
from controller.desired import kept_layers
from controller.drift.following import Alarm
from controller.state import Declared
from controller.trials import Trial
from policies.budgets import TrialBudget
from policies.changes import DeclaredChange
from policies.guarding import MemoryWall
from policies.guardrails import Around
from policies.knobs import KnobSpec
from policies.limits import Limits
from policies.overrides import Override
from policies.policy import Guard, Policy
from policies.proposal import Proposal
from policies.risk import Assessed, assess
from policies.settings import Setting, effective, place
from policies.steps import tried_values
from signals.events import MICROS

GUARD: Final = "attainment"


class Alarms(Struct, frozen=True, kw_only=True):
    """What the engine gave reason for: a drift alarm, a wall of memory that was met."""

    drift: Alarm | None = None
    wall: MemoryWall | None = None


NO_ALARMS: Final = Alarms()


def limits_of(declared: Declared, knob: str, spec: KnobSpec | None) -> Limits:
    """The limits of one knob; without its spec there is no ladder."""
    said = declared.target.knobs.of(knob)
    return limits(
        declared.guardrails,
        declared.target.guardrails,
        said.guardrails,
        ladder=() if spec is None else said.values(spec),
        bounds=said.bounds,
        safer=said.safer,
    )


def around_of(
    declared: Declared,
    policies: Iterable[Policy],
    specs: Mapping[str, KnobSpec],
    *,
    overrides: Iterable[Override] = (),
    changes: Iterable[DeclaredChange] = (),
    trial: Trial | None = None,
    alarms: Alarms = NO_ALARMS,
    budget: TrialBudget,
) -> Around:
    """What is around a proposal for this target. ``alarms``: that stand.

    ``budget``: of trials.
    """
    running = trial is not None and trial.state != "done"
    return Around(
        policies=tuple(policies),
        specs=specs,
        overrides=tuple(overrides),
        changes=tuple(changes),
        settle_us=declared.guardrails.settle_s * MICROS,
        replicas=max(1, len(declared.target.engine.control_urls)),
        trial=trial.plan.policy_id if running and trial is not None else None,
        budget=budget,
        wall=alarms.wall,
        drift="" if alarms.drift is None else alarms.drift.words,
        drift_figures={} if alarms.drift is None else alarms.drift.figures,
    )


def risk_of(
    declared: Declared,
    proposal: Proposal,
    spec: KnobSpec,
    *,
    policies: Iterable[Policy],
    baseline: Mapping[str, Setting],
) -> Assessed:
    """How risky it is. ``baseline``: by place, as it was declared last."""
    found = limits_of(declared, proposal.knob, spec)
    return assess(
        proposal.setting,
        before=proposal.before,
        spec=spec,
        ladder=found.ladder,
        tried=tried_values(policies, proposal.knob, proposal.scope),
        baseline=baseline.get(proposal.place, baseline.get(proposal.knob)),
        safer=found.safer,
    )


def below(
    baseline: Mapping[str, Setting], policies: Iterable[Policy], knob: str, scope: str, boot: int
) -> Setting:
    """What a place has without any trial: baseline and kept policies, else the boot value."""
    kept = [policy for policy in policies if policy.state == "kept"]
    folded = effective(baseline, kept_layers(kept))
    found = folded.get(place(knob, scope), folded.get(knob))
    return Setting(value=boot) if found is None else found.setting


def same(before: Setting, now: Setting) -> bool:
    """Whether two settings put the knob to the same; how a cap comes down is no part of it."""
    return (before.value, before.law) == (now.value, now.law)


def guards_of(declared: Declared, asked: Sequence[Guard] = ()) -> tuple[Guard, ...]:
    """What a change may not make worse: every intent's attainment, what the target is confirmed by,
    and what it asks for itself."""
    margins = {
        f"{GUARD}:{name}": declared.trial.attainment_margin for name in declared.target.intents
    }
    margins |= declared.target.confirm_by
    margins |= {guard.metric: guard.margin for guard in asked}
    return tuple(Guard(metric=metric, margin=one) for metric, one in sorted(margins.items()))

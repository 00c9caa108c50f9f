"""What trials teach: each judged unit shows two actions side by side, and both are learned.

A unit's utilities are those the judge saw. A part of U that an arm lacks (nothing waited, nobody
asked) counts as all it could be, in both arms alike: it says nothing of either, and the difference
stays the judge's own. The context is that of the unit's own seconds, the age that of its blocks.

What a person approved, or had a hand in, and what an emergency did, teaches nothing; the audit says
so, and why (``learner.eligible``). The safety budget is booked all the same: it is about what the
target earned, whoever wanted it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import structs

from controller.judge.values import PART
from controller.learner.eligible import policy_may_teach
from controller.learner.port import Context, Menu
from controller.learner.promise import gains
from controller.learner.registry import sums_of
from controller.learning.contexts import context_of
from controller.learning.crediting import (
    Bounds,
    ahead,
    booked,
    bounds,
    covers_doubt,
    gain_of,
    in_doubt,
)
from controller.learning.menus import Place, forecast, place_of
from controller.learning.notes import (
    REMEMBERED,
    Expectation,
    Gained,
    Level,
    Notes,
    latest,
    note,
    noted,
)
from controller.limiting import same
from controller.reading import undo
from controller.state import Draft, Seen
from controller.trials import PRIMARY, Trial, TrialPlan, Unit
from policies.knobs import TARGET_SCOPE, KnobSpec
from policies.limits import MICROS
from policies.policy import Policy
from policies.runtime_config import Arm
from policies.settings import Setting
from policies.steps import values_of

ARMS: Final[tuple[Arm, Arm]] = ("baseline", "candidate")
RATE_WEIGHT: Final = 0.5
SPENT: Final = "the safety budget does not cover another unit"


def teach(draft: Draft, seen: Seen) -> None:
    """Take in the units that this step judged, and what the plant expects of a trial's arms."""
    trial, before = draft.trial, draft.state.trial
    if draft.declared.learner.algorithm == "off" or trial is None or before is None:
        return
    place = _place(draft, seen, trial.plan)
    if place is None:
        return
    _expect(draft, seen, trial, place)
    known = {unit.index for unit in before.units if unit.judged}
    new = [unit for unit in trial.units if unit.judged and unit.index not in known]
    if not new:
        return
    policy = draft.policies[trial.plan.policy_id]
    notes = noted(draft)
    for unit in new:
        found = utilities(trial.plan, unit)
        if found is not None:
            notes = _learned(draft, seen, notes, policy, trial, unit, place, found)
    notes = _ended(notes, policy, trial, place)
    note(draft, notes)
    _stop_when_spent(draft, notes, trial, place)


def utilities(plan: TrialPlan, unit: Unit) -> dict[Arm, float] | None:
    """U of both arms, 0 to 1; None where the unit shows no part of it in both."""
    values = {arm: unit.values.get(arm, {}) for arm in ARMS}
    shared = [key for key in values["baseline"] if key in values["candidate"]]
    parts = [key for key in shared if key.startswith(PART)]
    if not parts:
        return None
    lacking = 1.0 - math.fsum(_weight(plan, key) for key in parts)
    return {
        arm: min(1.0, math.fsum([*(values[arm][key] for key in parts), lacking])) for arm in ARMS
    }


def _weight(plan: TrialPlan, part: str) -> float:
    """The most that a part of U can be."""
    rate = part == f"{PART}tokens_per_s:{plan.maximize}"
    return RATE_WEIGHT if rate else (1.0 - RATE_WEIGHT) / len(plan.intents)


def _place(draft: Draft, seen: Seen, plan: TrialPlan) -> Place | None:
    """Where the trial is, if it is one of the learner's places."""
    declared = draft.declared.target.knobs.declared
    if plan.scope != TARGET_SCOPE or plan.knob not in declared or seen.observed is None:
        return None
    specs: dict[str, KnobSpec] = {one.name: one for one in seen.observed.knobs}
    place = None if plan.knob not in specs else place_of(draft, specs[plan.knob])
    if place is None:
        return None
    ladder = {*place.ladder, *values_of(plan.baseline), *values_of(plan.candidate)}
    return structs.replace(place, ladder=tuple(sorted(ladder)), current=plan.baseline)


def _expect(draft: Draft, seen: Seen, trial: Trial, place: Place) -> None:
    """Note once what the plant expected when the trial began."""
    notes = noted(draft)
    if seen.plant is None or (notes.expected and notes.expected.trial == trial.plan.id):
        return
    known = forecast(draft, place, seen.plant, notes)
    expected = Expectation(
        trial=trial.plan.id,
        baseline=known.utility(trial.plan.baseline),
        candidate=known.utility(trial.plan.candidate),
    )
    note(draft, structs.replace(notes, expected=expected))


def _learned(
    draft: Draft,
    seen: Seen,
    notes: Notes,
    policy: Policy,
    trial: Trial,
    unit: Unit,
    place: Place,
    found: Mapping[Arm, float],
) -> Notes:
    """The notes after one unit: what it earned, and what it teaches if it may."""
    began_us = min(unit.blocks[0].opened_us or draft.now_us, draft.now_us)
    span_us = round(trial.plan.block_s * MICROS) * len(unit.blocks)
    beside = found["baseline"] - ahead(notes, place)
    if same(trial.plan.candidate, place.baseline):
        beside = found["candidate"]
    notes = booked(
        draft,
        notes,
        from_us=began_us,
        to_us=min(draft.now_us, began_us + span_us),
        utility=(found["baseline"] + found["candidate"]) / 2,
        baseline=beside,
    )
    notes = structs.replace(notes, earned_us=draft.now_us)
    overridden = draft.covering(trial.plan.knob, trial.plan.scope) is not None
    why = policy_may_teach(policy, overridden=overridden)
    if why:
        if draft.tell(f"{trial.plan.id} teaches nothing: {why}"):
            draft.note("learner.not_taught", policy.id, trial=trial.plan.id, why=why)
        return notes
    learner = notes.learner(draft.declared.learner, place.knob, position=place.position)
    context = _context(draft, seen, unit)
    expected = notes.expected if notes.expected and notes.expected.trial == trial.plan.id else None
    arms: Iterable[tuple[Setting, float, float]] = (
        (trial.plan.baseline, expected.baseline if expected else 0.0, found["baseline"]),
        (trial.plan.candidate, expected.candidate if expected else 0.0, found["candidate"]),
    )
    for setting, predicted, reward in arms:
        action = place.action(setting, predicted)
        learner = learner.learn_one(
            context, action, reward, at_us=draft.now_us, decided_us=began_us
        )
        judged = latest(notes.judged | {action.words(): draft.now_us})
        notes = structs.replace(notes, judged=judged)
    return notes.with_learner(place.knob, learner)


def _context(draft: Draft, seen: Seen, unit: Unit) -> Context:
    seconds = [row for block in unit.blocks for row in seen.due[block.index].seconds]
    return context_of(
        draft.declared.target.intents,
        [(row.to_us, row.arrivals) for row in seconds],
        [(row.to_us, row.offered_tokens) for row in seconds],
        at_us=draft.now_us,
    )


def _ended(notes: Notes, policy: Policy, trial: Trial, place: Place) -> Notes:
    """The notes once it is over: what the setting that stays earns over the declared baseline.

    At least, where the candidate was kept; where it was the baseline and was not kept, what is in
    force was just compared with it, and is in doubt no more.
    """
    effect = None if trial.ruling is None else trial.ruling.effect
    back = same(trial.plan.candidate, place.baseline)
    if back and policy.state == "kept":
        return structs.replace(notes, level=Level())
    if effect is None or policy.verdict is None or effect.metric != PRIMARY:
        return notes
    if not (back or policy.state == "kept"):
        return notes
    if back:
        setting = trial.plan.baseline
        gained = Gained(low=-effect.high, high=-effect.low, at_us=trial.began_us)
    else:
        setting, before, since_us = trial.plan.candidate, gain_of(notes, place), trial.began_us
        if not same(trial.plan.baseline, place.baseline):
            since_us = min(since_us, before.at_us)
        gained = Gained(
            low=before.low + max(0.0, effect.low),
            high=before.high + max(0.0, effect.high),
            at_us=since_us,
        )
    found = notes.gains | {place.action(setting).words(): gained}
    return structs.replace(notes, gains=dict(list(found.items())[-REMEMBERED:]), level=Level())


def _stop_when_spent(draft: Draft, notes: Notes, trial: Trial, place: Place) -> None:
    """A learner's own trial goes on only while its next unit could be paid for.

    What leads towards the baseline, or to the safer side, is never stopped by that.
    """
    policy, settings = draft.policies[trial.plan.policy_id], draft.declared.learner
    if policy.origin.kind != "learner" or policy.state != "on_trial" or policy.lowers_risk:
        return
    ledger, span_s = notes.ledger(settings), trial.plan.block_s
    if in_doubt(notes, place):
        covered = covers_doubt(ledger, at_us=draft.now_us, span_s=span_s)
    else:
        reckoned = _reckoned(draft, notes, trial, place)
        covered = reckoned.affords(ledger, at_us=draft.now_us, span_s=span_s)
    if not covered:
        undo(draft, policy, cause=f"INCONCLUSIVE: {SPENT}", verdict="INCONCLUSIVE")


def _reckoned(draft: Draft, notes: Notes, trial: Trial, place: Place) -> Bounds:
    """What the next unit of a trial is reckoned with."""
    settings = draft.declared.learner
    learner = notes.learner(settings, place.knob, position=place.position)
    sums, expected = sums_of(learner), notes.expected
    if sums is None or expected is None or expected.trial != trial.plan.id:
        return Bounds()
    two = (
        place.action(trial.plan.baseline, expected.baseline),
        place.action(trial.plan.candidate, expected.candidate),
    )
    menu = Menu(actions=two, mask=(True, True), baseline=0, current=0)
    return bounds(
        notes,
        gains(sums, Context(), menu, at_us=draft.now_us),
        [1],
        baseline=0,
        gained=gain_of(notes, place),
        deviations=settings.worst_sd,
    )

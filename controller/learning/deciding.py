"""The learner's turn: for each idle place a menu, exact probabilities, a draw, maybe a proposal.

A decision is made only when a trial could begin at once, and every ``decide_every_s``. Where
nothing on the menu is worth a trial there is nothing to draw: the reasons are recorded, once. Else
the draw is recorded whole, with the state of the learner that it names, so that it can be made
again; and if it is not what is in force, it becomes a proposal like any other.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Sequence
from typing import Final

from msgspec import Struct, structs

from controller.learner.credit import spent
from controller.learner.formula_only import FormulaOnly
from controller.learner.port import Action, Choice, Context, Menu
from controller.learner.promise import Gain, gains, promising
from controller.learner.registry import AnyLearner, sums_of
from controller.learning.contexts import context_of
from controller.learning.crediting import bounds, gain_of, idle
from controller.learning.menus import (
    Forecast,
    Place,
    forecast,
    menu,
    moved,
    origin,
    places,
    settings_of,
)
from controller.learning.notes import Notes, note, noted, text
from controller.limiting import limits_of, same
from controller.plant.laws import strictest_tpot_ms
from controller.plant.offered import recent
from controller.state import Draft, PlantInput, SavedLearner, Seen
from controller.store.port import Decision
from controller.trial.starting import around
from policies.guardrails import OPEN, Case, findings
from policies.policy import Effect
from policies.proposal import Proposal
from policies.settings import Setting
from signals.events import MICROS

INTERVAL: Final = 1.96
"""Deviations of the interval that is shown: 95 % of what the learner holds possible."""
SEED_BITS: Final = 48


class Draw(Struct, frozen=True, kw_only=True):
    """What became of one place's turn: the decision to store, and what it proposes, if anything."""

    decision: Decision
    proposal: Proposal | None = None


class Turn(Struct, frozen=True, kw_only=True):
    """All that one place's decision is made from."""

    place: Place
    known: Forecast
    context: Context
    menu: Menu
    learner: AnyLearner
    gains: tuple[Gain, ...]

    def worth(self, index: int, *, margin: float, least: float) -> bool:
        """Whether an action may be chosen and is worth a trial; without sums all are."""
        if not self.menu.mask[index] or index == self.menu.current:
            return False
        return not self.gains or self.gains[index].chance(margin) >= least


def draws(draft: Draft, seen: Seen, *, taken: Collection[str]) -> list[Draw]:
    """The decisions that are due now. ``taken``: places that have a proposal in this step."""
    settings, plant = draft.declared.learner, seen.plant
    if settings.algorithm == "off" or plant is None:
        return []
    if draft.trial is not None or draft.state.trial is not None:
        return []
    notes = noted(draft)
    every_us = round(settings.decide_every_s * MICROS)
    known = places(draft, seen)
    first = {one.knob: draft.now_us for one in known if one.knob not in notes.decided_us}
    if first:
        decided = notes.decided_us | first
        earned_us = notes.earned_us or draft.now_us
        note(draft, structs.replace(notes, decided_us=decided, earned_us=earned_us))
        return []
    due = [
        one
        for one in known
        if draft.now_us - notes.decided_us[one.knob] >= every_us
        and one.knob not in taken
        and _free(draft, seen, one)
    ]
    if not due:
        return []
    notes = idle(draft, seen, notes, known) if _left_alone(draft) else _unearned(draft, notes)
    decided = {one.knob: draft.now_us for one in due}
    notes = structs.replace(notes, decided_us=notes.decided_us | decided)
    found = []
    for place in due:
        draw, notes = _decided(draft, seen, plant, place, notes)
        found += [] if draw is None else [draw]
    note(draft, notes)
    return found


def _left_alone(draft: Draft) -> bool:
    """Whether nobody but the loop, and no emergency, has a hand in what is in force."""
    return not draft.overrides and not draft.in_state("in_force", "applying", "reverting")


def _unearned(draft: Draft, notes: Notes) -> Notes:
    return structs.replace(notes, earned_us=draft.now_us)


def _free(draft: Draft, seen: Seen, place: Place) -> bool:
    """Whether a proposal for the place could begin at once, as far as is known."""
    last = moved(place, draft.policies.values()).get(place.knob)
    dwell_us = round(draft.declared.learner.dwell_s * MICROS)
    if last is not None and draft.now_us - last.at_us < dwell_us:
        return False
    if draft.in_knob(place.knob, OPEN) or draft.covering(place.knob, "target") is not None:
        return False
    since_us = draft.now_us - draft.declared.guardrails.cooldown_s * MICROS
    shown = draft.in_knob(place.knob, frozenset({"observed"}))
    if any(one.origin.kind == "learner" and one.created_us > since_us for one in shown):
        return False
    specs = {} if seen.observed is None else {one.name: one for one in seen.observed.knobs}
    case = Case(
        proposal=_proposal(draft, place, place.current, reason="", expected=None, evidence={}),
        around=around(draft, specs),
        limits=limits_of(draft.declared, place.knob, place.spec),
        now_us=draft.now_us,
    )
    return all(one.outcome != "wait" for one in findings(case, at="start"))


def _decided(
    draft: Draft, seen: Seen, plant: PlantInput, place: Place, notes: Notes
) -> tuple[Draw | None, Notes]:
    """One place's turn, and the notes after it."""
    settings = draft.declared.learner
    known = forecast(draft, place, plant, notes)
    notes = structs.replace(notes, measured=notes.measured | {place.knob: known.measured})
    turn = _turn(draft, seen, plant, place, known, notes)
    worth = [
        turn.worth(index, margin=settings.least_gain, least=settings.least_promise)
        for index in range(len(turn.menu.actions))
    ]
    if not any(worth):
        why = _reasons(turn.menu)
        if notes.explained.get(place.knob) == why:
            return None, notes
        notes = structs.replace(notes, explained=notes.explained | {place.knob: why})
        return Draw(decision=_settled(draft, seen, turn)), notes
    seed = draft.rng.getrandbits(SEED_BITS)
    choice = turn.learner.choose(turn.context, turn.menu, seed=seed, at_us=draft.now_us)
    draft.learners.append(SavedLearner(digest=choice.state, body=text(turn.learner)))
    notes = notes.with_learner(place.knob, turn.learner)
    decision = _drawn(draft, seen, choice)
    if choice.index == turn.menu.current:
        return Draw(decision=decision), notes
    return Draw(decision=decision, proposal=_proposed(draft, turn, choice)), notes


def _turn(
    draft: Draft, seen: Seen, plant: PlantInput, place: Place, known: Forecast, notes: Notes
) -> Turn:
    """The menu after every mask, and what the learner thinks of it."""
    settings = draft.declared.learner
    lately = recent(plant, now_us=draft.now_us)
    context = context_of(
        draft.declared.target.intents, lately.arrivals, lately.offered, at_us=draft.now_us
    )
    learner = _with_curve(
        draft, plant, known, notes.learner(settings, place.knob, position=place.position)
    )
    found = menu(draft, seen, place, settings_of(draft, place, plant), known)
    sums = sums_of(learner)
    thought: tuple[Gain, ...] = ()
    if sums is not None:
        found = promising(
            found,
            sums,
            context,
            at_us=draft.now_us,
            margin=settings.least_gain,
            least=settings.least_promise,
        )
        thought = gains(sums, context, found, at_us=draft.now_us)
    found = _paid_for(draft, place, found, thought, notes)
    return Turn(
        place=place, known=known, context=context, menu=found, learner=learner, gains=thought
    )


def _with_curve(
    draft: Draft, plant: PlantInput, known: Forecast, learner: AnyLearner
) -> AnyLearner:
    """The formula asks the curve of the moment; no other algorithm looks at it."""
    limit_ms = strictest_tpot_ms(draft.declared.target.intents)
    if not isinstance(learner, FormulaOnly) or known.outlook is None or limit_ms is None:
        return learner
    return structs.replace(
        learner,
        curve=known.outlook.curve,
        tpot_ms=limit_ms,
        prefill_per_decode=plant.prefill_per_decode,
    )


def _paid_for(
    draft: Draft, place: Place, found: Menu, thought: Sequence[Gain], notes: Notes
) -> Menu:
    """The menu as far as the safety budget goes; without sums an action could earn nothing."""
    settings = draft.declared.learner
    reckoned = bounds(
        notes,
        thought,
        [index for index in found.allowed if index != found.current],
        baseline=found.baseline,
        gained=gain_of(notes, place),
        deviations=settings.worst_sd,
    )
    ledger, span_s = notes.ledger(settings), draft.declared.trial.block_s
    if reckoned.affords(ledger, at_us=draft.now_us, span_s=span_s):
        return found
    judged = same(place.current, place.baseline) or gain_of(notes, place).low > 0
    return spent(found, ledger, at_us=draft.now_us, current_is_kept=judged)


def _reasons(found: Menu) -> str:
    """A digest of why what is masked; figures in it may change without its being news."""
    words = sorted(f"{key} {re.sub(r'[0-9.]+', '#', why)}" for key, why in found.why.items())
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]


def _settled(draft: Draft, seen: Seen, turn: Turn) -> Decision:
    """The record that nothing is worth a trial, with the reasons."""
    current = turn.menu.actions[turn.menu.current]
    return _record(draft, seen, turn.learner.model, turn.context, turn.menu, current, 1.0, 0)


def _drawn(draft: Draft, seen: Seen, choice: Choice) -> Decision:
    record = _record(
        draft,
        seen,
        choice.model,
        choice.context,
        choice.menu,
        choice.action,
        choice.propensity,
        choice.seed,
    )
    return structs.replace(record, choice=choice)


def _record(
    draft: Draft,
    seen: Seen,
    model: str,
    context: Context,
    found: Menu,
    chosen: Action,
    propensity: float,
    seed: int,
) -> Decision:
    return Decision(
        id=draft.new_id("dec"),
        target=draft.declared.name,
        at_us=draft.now_us,
        source=f"learner:{model.partition(':')[0]}",
        context=dict(context.features),
        actions=tuple(action.words() for action in found.actions),
        chosen=chosen.words(),
        propensity=propensity,
        model=model,
        seed=seed,
        cursor=seen.cursor,
        masked={
            action.words(): found.why[action.id]
            for action in found.actions
            if action.id in found.why
        },
    )


def _proposed(draft: Draft, turn: Turn, choice: Choice) -> Proposal:
    """The change, with its reason made from the evidence."""
    arm, index, gain = choice.action.arms[0], choice.index, None
    evidence = {
        "propensity": choice.propensity,
        "allowed": float(len(choice.menu.allowed)),
        "evidence_units": turn.learner.evidence(at_us=draft.now_us),
        "plant_utility": turn.menu.actions[index].expected,
        "plant_utility_in_force": turn.menu.actions[turn.menu.current].expected,
    }
    expected = None
    if turn.gains:
        gain = turn.gains[index]
        margin = draft.declared.learner.least_gain
        evidence |= {"gain": gain.mean, "gain_sd": gain.sd, "promise": gain.chance(margin)}
        expected = Effect(
            metric="U",
            estimate=round(gain.mean, 4),
            low=round(gain.mean - INTERVAL * gain.sd, 4),
            high=round(gain.mean + INTERVAL * gain.sd, 4),
            source=f"{choice.model}, 95% of what it holds possible",
        )
    evidence = {name: round(value, 4) for name, value in evidence.items()}
    return _proposal(
        draft,
        turn.place,
        arm.setting,
        reason=_reason(draft, turn, choice, gain),
        expected=expected,
        evidence=evidence,
    )


def _reason(draft: Draft, turn: Turn, choice: Choice, gain: Gain | None) -> str:
    actions, units = turn.menu.actions, turn.learner.evidence(at_us=draft.now_us)
    now, then = actions[turn.menu.current], actions[choice.index]
    parts = [f"drawn from {len(choice.menu.allowed)} settings with chance {choice.propensity:.0%}"]
    if turn.known.outlook is not None:
        parts.append(f"the plant model expects U {then.expected:.3f} instead of {now.expected:.3f}")
    if gain is not None:
        settings = draft.declared.learner
        parts.append(
            f"with what {units:.0f} arms of trials taught, a gain of {gain.mean:+.3f} "
            f"({gain.mean - INTERVAL * gain.sd:+.3f} to {gain.mean + INTERVAL * gain.sd:+.3f}), "
            f"{gain.chance(settings.least_gain):.0%} likely to be more than {settings.least_gain:g}"
        )
    return f"{choice.model}: " + "; ".join(parts)


def _proposal(
    draft: Draft,
    place: Place,
    setting: Setting,
    *,
    reason: str,
    expected: Effect | None,
    evidence: dict[str, float],
) -> Proposal:
    return Proposal(
        target=draft.declared.name,
        knob=place.knob,
        setting=setting,
        before=place.current,
        origin=origin(draft),
        reason=reason,
        evidence=evidence,
        expected=expected,
    )

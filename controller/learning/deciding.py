"""The learner's turn: for each idle place a menu, exact probabilities, a draw, maybe a proposal.

A decision is made only when a trial could begin at once, and every ``decide_every_s``. Where
nothing on the menu is worth a trial there is nothing to draw: the reasons are recorded, once. Else
the draw is recorded whole, with the state of the learner that it names, so that it can be made
again; and if it is not what is in force, it becomes a proposal like any other.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from typing import Final

from msgspec import Struct, structs

from controller.learner.formula_only import FormulaOnly
from controller.learner.port import Action, Choice, Context, Menu
from controller.learner.promise import Gain, gains, promising
from controller.learner.registry import AnyLearner, sums_of
from controller.learning.contexts import context_of
from controller.learning.crediting import idle, in_doubt
from controller.learning.doubting import take_back, why_back
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
from controller.learning.notes import Level, Notes, note, noted, text
from controller.learning.paying import paid_for
from controller.limiting import limits_of
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
    late = [
        one
        for one in known
        if draft.now_us - notes.decided_us[one.knob] >= every_us and one.knob not in taken
    ]
    waits = {one.knob: _waits(draft, seen, notes, one) for one in late}
    due = [one for one in late if not waits[one.knob]]
    doubted = [one for one in late if in_doubt(notes, one)]
    if not due and not doubted:
        return []
    alone = _left_alone(draft)
    notes = idle(draft, seen, notes, known) if alone else _unearned(draft, notes)
    decided = {one.knob: draft.now_us for one in (*due, *doubted)}
    notes = structs.replace(notes, decided_us=notes.decided_us | decided)
    gone = set()
    for place in doubted if alone else ():
        notes = _looked_back(draft, seen, plant, place, notes)
        why = why_back(draft, notes, place, waits=waits[place.knob])
        if why and take_back(draft, place, why):
            gone.add(place.knob)
            notes = structs.replace(notes, level=Level())
    found = []
    for place in [one for one in due if one.knob not in gone]:
        draw, notes = _decided(draft, seen, plant, place, notes)
        found += [] if draw is None else [draw]
    note(draft, notes)
    return found


def _left_alone(draft: Draft) -> bool:
    """Whether nobody but the loop, and no emergency, has a hand in what is in force."""
    return not draft.overrides and not draft.in_state("in_force", "applying", "reverting")


def _unearned(draft: Draft, notes: Notes) -> Notes:
    return structs.replace(notes, earned_us=draft.now_us)


def _looked_back(draft: Draft, seen: Seen, plant: PlantInput, place: Place, notes: Notes) -> Notes:
    """The notes with how much more the declared baseline is expected to earn, as far as is known.

    Never less than what is in force: on a model's word alone no credit is earned.
    """
    turn = _turn(draft, seen, plant, place, forecast(draft, place, plant, notes), notes)
    mean = turn.gains[turn.menu.baseline].mean if turn.gains else 0.0
    behind = notes.behind | {place.knob: round(max(0.0, mean), 6)}
    return structs.replace(notes, behind=behind)


def _waits(draft: Draft, seen: Seen, notes: Notes, place: Place) -> str:
    """What keeps a proposal for the place from beginning at once, by name; empty: nothing known."""
    last = moved(place, draft.policies.values()).get(place.knob)
    dwell_us = round(draft.declared.learner.dwell_s * MICROS)
    if last is not None and draft.now_us - last.at_us < dwell_us:
        return "dwell"
    if draft.in_knob(place.knob, OPEN) or draft.covering(place.knob, "target") is not None:
        return "taken"
    since_us = draft.now_us - draft.declared.guardrails.cooldown_s * MICROS
    shown = draft.in_knob(place.knob, frozenset({"observed"}))
    if any(one.origin.kind == "learner" and one.created_us > since_us for one in shown):
        return "cooldown"
    specs = {} if seen.observed is None else {one.name: one for one in seen.observed.knobs}
    asked = _proposal(draft, place, place.current, reason="", expected=None, evidence={})
    case = Case(
        proposal=structs.replace(asked, review=in_doubt(notes, place)),
        around=around(draft, specs),
        limits=limits_of(draft.declared, place.knob, place.spec),
        now_us=draft.now_us,
    )
    stops = (one.guardrail for one in findings(case, at="start") if one.outcome == "wait")
    return next(stops, "")


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
    proposal = structs.replace(_proposed(draft, turn, choice), review=in_doubt(notes, place))
    return Draw(decision=decision, proposal=proposal), notes


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
    found = paid_for(draft, place, found, thought, notes)
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

"""The safety budget in the loop: what the target earned over its baseline, unit by unit.

Judged units of any trial are booked as they are measured. Between trials nobody knows what the
baseline would have earned, so what is in force is taken to earn the least that its trials found
beside it: nothing more where it is the baseline itself. Booked is what can be seen now, a sample of
the last seconds; where nothing can be seen nothing is booked, so credit is never dreamt up.

What is kept is **in doubt** once the engine has changed since its trials (``doubting``). They say
nothing of it any more, nor does its level, so that no worst case can be told: the baseline might
earn anything. Then it is booked at what the learner expects of the baseline now, with a plant model
of the last minutes, or, where a trial of going back shows the baseline itself, at what that showed;
and never as more than the baseline. Credit of before may be spent on staying and on trials as long
as one more unit could earn nothing where the baseline would have earned all. What leads back to the
baseline needs no credit: by that the target can earn no less than the baseline does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, structs

from controller.config.targets import TargetSettings
from controller.learner.credit import Ledger
from controller.learner.promise import Gain
from controller.learning.menus import CAP, Place
from controller.learning.notes import Gained, Notes
from controller.limiting import same
from controller.plant.laws import reference_tokens_per_s
from controller.state import Draft, Seen
from signals.events import MICROS

LONGEST = 2.0
"""Times the usual distance of decisions: a longer silence is booked no further."""


def idle(draft: Draft, seen: Seen, notes: Notes, places: Iterable[Place]) -> Notes:
    """The notes with the time since the last entry, in which nothing was tried."""
    settings = draft.declared.learner
    since_us, notes = notes.earned_us, structs.replace(notes, earned_us=draft.now_us)
    utility = utility_now(draft.declared.target, seen, _reference(draft, seen))
    longest_us = round(LONGEST * settings.decide_every_s * MICROS)
    if since_us == 0 or utility is None:
        return notes
    gained = sum(ahead(notes, place) for place in places)
    notes = structs.replace(notes, level=notes.level.seen(utility))
    return booked(
        draft,
        notes,
        from_us=max(since_us, draft.now_us - longest_us),
        to_us=draft.now_us,
        utility=utility,
        baseline=utility - gained,
    )


def booked(
    draft: Draft, notes: Notes, *, from_us: int, to_us: int, utility: float, baseline: float
) -> Notes:
    """The notes with one entry more, of the part that is not in the ledger; or as they are."""
    ledger = notes.ledger(draft.declared.learner)
    begins_us = max(from_us, ledger.entries[-1].end_us if ledger.entries else 0)
    span_s = (to_us - begins_us) / MICROS
    if not ledger.min_unit_s <= span_s <= ledger.horizon_s:
        return notes
    after = ledger.earned(
        at_us=begins_us, span_s=span_s, utility=share(utility), baseline=share(baseline)
    )
    return structs.replace(notes, entries=after.entries)


def gain_of(notes: Notes, place: Place) -> Gained:
    """What is in force on a place is known to earn over its baseline; nothing where it is that."""
    if same(place.current, place.baseline):
        return Gained()
    return notes.gains.get(place.action(place.current).words(), Gained())


def in_doubt(notes: Notes, place: Place) -> bool:
    """Whether what is in force there was judged on an engine that is no more."""
    return not same(place.current, place.baseline) and gain_of(notes, place).at_us < notes.doubt_us


def ahead(notes: Notes, place: Place) -> float:
    """What is in force is taken to earn so much over the baseline; below 0 only while in doubt."""
    if in_doubt(notes, place):
        return -notes.behind.get(place.knob, 0.0)
    return gain_of(notes, place).low


def covers_doubt(ledger: Ledger, *, at_us: int, span_s: float) -> bool:
    """Whether credit is left for one more unit whatever it earns, where no bounds are known."""
    return ledger.balance(at_us=at_us) >= ledger.least * span_s


class Bounds(Struct, frozen=True, kw_only=True):
    """What the budget reckons with: the baseline's most now and least later, the least of a try."""

    most: float = 1.0
    floor: float = 0.0
    worst: float = 0.0

    def affords(self, ledger: Ledger, *, at_us: int, span_s: float) -> bool:
        """Whether a unit of that length could be paid for, whatever comes of it within these."""
        at_us = max(at_us, ledger.entries[-1].end_us if ledger.entries else 0)
        span_s = min(max(span_s, ledger.min_unit_s), ledger.horizon_s)
        return ledger.allows(
            at_us=at_us,
            span_s=span_s,
            baseline=share(self.most),
            floor=share(self.floor),
            worst=share(self.worst),
        )


def bounds(
    notes: Notes,
    thought: Sequence[Gain],
    tried: Sequence[int],
    *,
    baseline: int,
    gained: Gained,
    deviations: float,
) -> Bounds:
    """From what trials taught of rewards, and from the level that was seen between them.

    ``thought``: of each action; ``tried``: those that may come. Either way of knowing will do: each
    bound is the tighter one. An action's gain over what is in force is known better than its
    reward, for the load moves both alike.
    """
    most, floor, worst = 1.0, 0.0, 0.0
    if thought:
        most, floor = thought[baseline].most(deviations), thought[baseline].least(deviations)
        worst = min((thought[index].least(deviations) for index in tried), default=0.0)
    level = notes.level.bounds(deviations)
    if level is not None:
        low, high = level
        most, floor = min(most, high - gained.low), max(floor, low - gained.high)
        if thought:
            least = [thought[index].mean - deviations * thought[index].sd for index in tried]
            worst = max(worst, low + min([0.0, *least]))
    return Bounds(most=most, floor=floor, worst=worst)


def utility_now(target: TargetSettings, seen: Seen, reference: float) -> float | None:
    """U of the last seconds, from the features; None while no intent's attainment is known.

    The rate counts only while work of the maximised intent waits, as everywhere.
    """
    features: Mapping[str, float] = seen.features
    met = [
        min(1.0, features[f"{name}.attainment"] / intent.slo.attainment)
        for name, intent in target.intents.items()
        if f"{name}.attainment" in features
    ]
    if not met:
        return None
    rate = 1.0
    if features.get(f"{target.maximized}.waiting", 0.0) > 0 and reference > 0:
        rate = min(1.0, features.get(f"{target.maximized}.tokens_per_s", 0.0) / reference)
    return 0.5 * rate + 0.5 * sum(met) / len(met)


def share(utility: float) -> float:
    """Within 0 to 1."""
    return min(1.0, max(0.0, utility))


def _reference(draft: Draft, seen: Seen) -> float:
    knobs = () if seen.observed is None else seen.observed.knobs
    capacity = next((one.capacity for one in knobs if one.name == CAP), None)
    if capacity is None or seen.plant is None:
        return 0.0
    return reference_tokens_per_s(seen.plant, capacity, model=draft.declared.plant)

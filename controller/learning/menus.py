"""What may be chosen for one place now, and why the rest may not.

::

    setpoints of the ladder, laws ──► within one step of what was tried, guardrails, memory, limits
        ──► restless? growing a limit that is not reached? ──► worth a trial? ──► paid for?

Each stage masks, in words, and none chooses. The baseline and what is in force pass them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

from msgspec import Struct, structs

from controller.learner.masking import guardrail_refusals, menu_of, tried_by_place
from controller.learner.port import Action, Arm, Menu
from controller.learner.stability import Load as Binding
from controller.learner.stability import Moved, steady
from controller.learning.notes import Notes
from controller.limiting import limits_of, same
from controller.memory_wall import wall_of
from controller.plant.feasible import Feasibility, Offer, assess
from controller.plant.laws import (
    INTERACTIVE,
    drain_at_top_s,
    interactive_share,
    law_of,
    reference_tokens_per_s,
    shrink_for,
    usable_curve,
)
from controller.plant.memory import Wall
from controller.plant.offered import Offered, measured, offered, recent
from controller.plant.outlook import Outlook
from controller.plant.residual import Measured, Residual
from controller.plant.step_curve import StepCurve
from controller.state import Draft, PlantInput, Seen
from controller.trial.starting import around, baseline_below
from policies.knobs import KnobSpec
from policies.policy import Origin, Policy
from policies.settings import Setting
from policies.steps import direction, values_of

CAP: Final = "active_cap"
BUDGET: Final = "step_token_budget"
TOPS: Final = 2
"""A law without interactive requests goes to one of so many of the ladder's highest values."""
FULL: Final = 0.9
"""A second whose steps were filled to this share of a limit has reached it."""


class Place(Struct, frozen=True, kw_only=True):
    """One knob at target scope. ``ladder`` holds the values of the baseline and the present too."""

    knob: str
    spec: KnobSpec
    ladder: tuple[int, ...]
    baseline: Setting
    current: Setting

    def action(self, setting: Setting, expected: float = 0.0) -> Action:
        """A setting of it as an action. Raises ``Rejected`` off the ladder."""
        return Action.of(Arm.on(self.ladder, self.knob, setting), expected=expected)

    @property
    def position(self) -> float:
        """Where it stands on the ladder; a law where its default does."""
        return float(self.ladder.index(values_of(self.current)[0]))


class Forecast(Struct, frozen=True, kw_only=True):
    """What the plant model says of a place: expected U, and which values are out of the question.

    ``outlook`` None: it says nothing of this knob.
    """

    measured: tuple[Measured, ...] = ()
    residual: Residual | None = None
    outlook: Outlook | None = None
    offers: Offered | None = None
    wall: Wall | None = None
    context_tokens: float = 0.0

    def utility(self, setting: Setting) -> float:
        """Expected U of a setting; 0 where nothing is known, and then of all alike."""
        cap, other = _two(setting)
        return 0.0 if self.outlook is None else self.outlook.utility(cap, other)


def places(draft: Draft, seen: Seen) -> list[Place]:
    """The knobs that the file declares and the engine can move while it runs, in name order.

    None of high risk: what makes it so, such as answers cut short, is no part of U.
    """
    specs = {} if seen.observed is None else {one.name: one for one in seen.observed.knobs}
    found = (
        place_of(draft, specs[knob])
        for knob in sorted(draft.declared.target.knobs.declared)
        if knob in specs
        and specs[knob].capability not in ("unsupported", "restart")
        and specs[knob].risk != "high"
    )
    return [one for one in found if one is not None]


def place_of(draft: Draft, spec: KnobSpec) -> Place | None:
    """What is declared and in force of a knob; None without any ladder."""
    baseline = draft.state.baseline.get(spec.name, Setting(value=spec.boot))
    current = baseline_below(draft, spec.name, spec.boot)
    ladder = draft.declared.target.knobs.of(spec.name).values(spec)
    if not ladder or not values_of(baseline) or not values_of(current):
        return None
    whole = sorted({*ladder, *values_of(baseline), *values_of(current)})
    return Place(knob=spec.name, spec=spec, ladder=tuple(whole), baseline=baseline, current=current)


def forecast(draft: Draft, place: Place, plant: PlantInput, notes: Notes) -> Forecast:
    """The plant model's word on a place; of any knob but the cap it has none."""
    model, intents = draft.declared.plant, draft.declared.target.intents
    curve = usable_curve(plant, model)
    if place.knob != CAP or isinstance(curve, str):
        return Forecast()
    now = measured(plant.points, curve, place.ladder, now_us=draft.now_us)
    merged = {one.value: one for one in (*notes.measured.get(place.knob, ()), *now)}
    tested = tuple(merged[value] for value in sorted(merged))
    residual = Residual.of(tested, place.ladder, now_us=draft.now_us, model=model)
    offers = offered(
        intents,
        recent(plant, now_us=draft.now_us),
        maximized=draft.declared.target.maximized,
        window_s=draft.declared.trial.law_window_s,
    )
    kv = plant.kv
    return Forecast(
        measured=tested,
        residual=residual,
        outlook=_outlook(place, plant, curve, residual, offers, draft),
        offers=offers,
        wall=None if kv is None else wall_of(draft.noted, kv, plant.fingerprint),
        context_tokens=plant.context_tokens,
    )


def _outlook(
    place: Place,
    plant: PlantInput,
    curve: StepCurve,
    residual: Residual,
    offers: Offered,
    draft: Draft,
) -> Outlook:
    return Outlook(
        curve=curve,
        rho=plant.prefill_per_decode,
        residual=residual,
        share=offers.share,
        interactive=offers.interactive,
        others=offers.others,
        reference_tokens_per_s=reference_tokens_per_s(
            plant, place.spec.capacity, model=draft.declared.plant
        ),
        own_tokens_per_s=offers.own_tokens_per_s,
        backlog=offers.backlog,
    )


def settings_of(draft: Draft, place: Place, plant: PlantInput) -> list[Setting]:
    """Every setting that there is a choice of: baseline, present, setpoints, laws; each once.

    Two that differ in how a cap comes down alone are one choice, and what is there stays. The
    nearest to what is in force come first, and no more than the menu may have.
    """
    found = [place.current]
    setpoints = (Setting(value=value) for value in place.ladder)
    for one in chain((place.baseline,), setpoints, _laws(draft, place, plant)):
        if not any(same(one, other) for other in found):
            found.append(one)
    always, rest = found[:2], found[2:]
    if same(place.baseline, place.current):
        always, rest = found[:1], found[1:]
    rest.sort(key=lambda one: _distance(place, one))
    return [*always, *rest][: draft.declared.learner.max_actions]


def menu(
    draft: Draft, seen: Seen, place: Place, settings: Sequence[Setting], known: Forecast
) -> Menu:
    """The menu, as far as guardrails, memory, limits and stability say."""
    actions = tuple(place.action(one, known.utility(one)) for one in settings)
    specs = {} if seen.observed is None else {one.name: one for one in seen.observed.knobs}
    beside = around(draft, specs)
    refusals = infeasible(draft, place, actions, known) | guardrail_refusals(
        actions,
        target=draft.declared.name,
        before={place.knob: place.current},
        origin=origin(draft),
        around=beside,
        limits={place.knob: limits_of(draft.declared, place.knob, place.spec)},
        now_us=draft.now_us,
    )
    baseline = place.baseline
    if same(baseline, place.current):
        baseline = place.current
    found = menu_of(
        actions,
        baseline=place.action(baseline).id,
        current=place.action(place.current).id,
        tried=tried_by_place(beside, actions),
        refusals=refusals,
    )
    return steady(
        found,
        binding(place, seen),
        moved(place, draft.policies.values()),
        now_us=draft.now_us,
        settings=draft.declared.learner,
    )


def origin(draft: Draft) -> Origin:
    """Who proposes."""
    return Origin(kind="learner", name=draft.declared.learner.algorithm)


def infeasible(
    draft: Draft, place: Place, actions: Sequence[Action], known: Forecast
) -> dict[str, str]:
    """Action id -> why one of its values may not be, in the plant model's words.

    Interactive intents meet the first value of a law's step, the others both. What is in force may
    miss its limits by more than asked for: no worse than that will do.
    """
    if known.offers is None or known.outlook is None:
        return {}
    cap, other = _two(place.current)
    there = _refusals(draft, place, known, known.offers.all, cap)
    away = _refusals(draft, place, known, known.offers.others, other)
    found = {}
    for action in actions:
        first, second = _two(action.arms[0].setting)
        words = there[first] or away[second]
        if words:
            found[action.id] = words
    return found


def _refusals(
    draft: Draft, place: Place, known: Forecast, offers: tuple[Offer, ...], now: int
) -> dict[int, str]:
    """By ladder value, why it is out of the question where ``offers`` meet it; "" where it isn't.

    How far it may be from what was tried is for the menu.
    """
    case = Feasibility(
        ladder=place.ladder,
        now=None,
        baseline=None,
        tested=frozenset(place.ladder),
        now_us=draft.now_us,
        curve=None if known.outlook is None else known.outlook.curve,
        residual=known.residual,
        offers=offers,
        wall=known.wall,
        context_tokens=known.context_tokens,
    )
    model = draft.declared.plant
    first = {one.value: one for one in assess(case, model)}
    case = structs.replace(case, enough=first[now].attainment)
    return {one.value: "" if one.allowed else one.why for one in assess(case, model)}


def _laws(draft: Draft, place: Place, plant: PlantInput) -> list[Setting]:
    """Laws from interactive arrivals, where there are others beside them and a rhythm to try over.

    Below each of the ladder's highest values, every lower one.
    """
    limits, intents = draft.declared.trial, draft.declared.target.intents
    classes = {one.class_ for one in intents.values()}
    curve = usable_curve(plant, draft.declared.plant)
    ladder = draft.declared.target.knobs.of(place.knob).values(place.spec)
    if place.knob != CAP or isinstance(curve, str) or INTERACTIVE not in classes:
        return []
    if len(classes) < 2 or len(ladder) < 2:
        return []
    first = law_of(ladder[0], ladder[-1], limits)
    if isinstance(interactive_share(first, intents, plant, limits), str):
        return []
    found = []
    for top in ladder[-TOPS:]:
        drain_s = drain_at_top_s(curve, plant, top=top, now=place.current.value)
        shrink = shrink_for(intents, drain_s, draft.declared.plant)
        found += [
            Setting(law=law_of(cap, top, limits), shrink=shrink) for cap in ladder if cap < top
        ]
    return found


def binding(place: Place, seen: Seen) -> Binding:
    """How much of the time the place was the limit; knobs that are no limit grow freely.

    Requests that end in an error stand for those that time out.
    """
    errors = seen.features.get("target.error_rate", 0.0)
    if place.knob not in (CAP, BUDGET) or seen.plant is None:
        return Binding(binding={place.knob: 1.0}, timeout_share=errors)
    now = None if seen.observed is None else seen.observed.setting(place.knob)
    points = seen.plant.points
    if now is None or not points:
        return Binding(binding={}, timeout_share=errors)
    used = [(one.b if place.knob == CAP else one.b + one.f) / one.n for one in points]
    lowest = min(values_of(place.current))
    reached = sum(one >= FULL * lowest for one in used)
    return Binding(binding={place.knob: reached / len(used)}, timeout_share=errors)


def moved(place: Place, policies: Iterable[Policy]) -> dict[str, Moved]:
    """When the place changed last, and which way if the change stands."""
    changes = [
        Moved(
            at_us=policy.updated_us,
            way=direction(policy.before, policy.setting) if policy.state == "kept" else "none",
        )
        for policy in policies
        if policy.place == place.knob and policy.applied_us is not None
    ]
    return {place.knob: max(changes, key=lambda one: one.at_us)} if changes else {}


def _two(setting: Setting) -> tuple[int, int]:
    """The cap while interactive requests are there, and the other one."""
    if setting.law is not None:
        return setting.law.steps[-1].value, setting.law.default
    value = setting.value or 0
    return value, value


def _distance(place: Place, setting: Setting) -> tuple[int, int]:
    """Ladder values between a setting and the present one; setpoints before laws."""
    now, then = _two(place.current), _two(setting)
    away = sum(
        abs(place.ladder.index(a) - place.ladder.index(b)) for a, b in zip(now, then, strict=True)
    )
    return away, int(setting.law is not None)

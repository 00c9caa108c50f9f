"""Which ladder values may be proposed: within memory, within the limits, and near what was tested.

A value is feasible when it is the baseline's or the present one (what runs may go on running), or::

    predicted bytes ≤ what is allowed below memory's wall          (memory)
    value           ≤ one ladder step beyond the tested ones       (residual never extrapolates)
    attainment of each intent's requests ≥ its target              (queueing, times the residual)

for the load seen, with the residual at its upper end of one deviation. What can't be told, because
no layout was announced or no curve is known, refuses nothing and is said. Each refusal is in words.

>>> curve = StepCurve(
...     base_us=18_000.0, per_decode_us=1300.0, per_prefill_us=0.0, steps=1000, residual=0.0
... )
>>> live = Offer(name="live", slo=Slo(ttft_ms=1000, tpot_ms=50, attainment=0.9), load=Load(
...     arrivals_per_s=6.0, output_tokens=30.0, backlog_tokens=30.0))
>>> case = Feasibility(ladder=(4, 8, 16, 32, 64), now=8, baseline=8, tested=frozenset({8, 16}),
...     curve=curve, offers=(live,), now_us=0)
>>> [value.value for value in assess(case, PlantSettings()) if value.allowed]
[8, 16]
>>> print(assess(case, PlantSettings())[-1].why)
64 is 2 ladder values beyond what was tested (8 to 16), one is the most

Why not let the optimiser find out: a trial of an infeasible value costs real requests.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from controller.plant.memory import Wall
from controller.plant.queueing import Load, predict
from controller.plant.residual import Residual
from controller.plant.settings import PlantSettings
from controller.plant.step_curve import StepCurve
from policies.steps import steps_beyond
from signals.settings import Slo

FURTHEST = 1
"""Ladder values beyond the tested ones. Not a setting: the residual knows nothing further out."""


class Offer(Struct, frozen=True, kw_only=True):
    """One intent's service level, and the load that its requests are part of."""

    name: str
    slo: Slo
    load: Load


class Feasibility(Struct, frozen=True, kw_only=True):
    """What the values of one knob, the cap, are assessed on.

    ``ladder`` rises. ``tested``: values that ran on this engine; the present and the baseline's
    count as tested. ``context_tokens``: the quantile of contexts that memory is predicted with.
    ``curve`` and ``wall`` None: not known. ``enough``: by intent, the attainment that will do where
    that is less than its target: no worse than what is in force.
    """

    ladder: tuple[int, ...]
    now: int | None
    baseline: int | None
    tested: frozenset[int]
    now_us: int
    curve: StepCurve | None = None
    residual: Residual | None = None
    offers: tuple[Offer, ...] = ()
    wall: Wall | None = None
    context_tokens: float = 0.0
    enough: dict[str, float] = {}


class Assessed(Struct, frozen=True, kw_only=True):
    """One ladder value: whether it may be proposed, why (not), and what was predicted of it.

    ``attainment``: by intent; empty where it could not be predicted.
    """

    value: int
    allowed: bool
    why: str = ""
    attainment: dict[str, float] = {}
    needed_bytes: int | None = None


def assess(case: Feasibility, model: PlantSettings) -> tuple[Assessed, ...]:
    """Every ladder value, in the ladder's order."""
    return tuple(_assess(value, case, model) for value in case.ladder)


def allowed(case: Feasibility, model: PlantSettings) -> tuple[int, ...]:
    """The values that may be proposed; never empty when the present one is on the ladder."""
    return tuple(one.value for one in assess(case, model) if one.allowed)


def _assess(value: int, case: Feasibility, model: PlantSettings) -> Assessed:
    attainment = _attainment(value, case)
    needed = None
    if case.wall is not None:
        needed = case.wall.needed_bytes(
            value, context_tokens=case.context_tokens, now_us=case.now_us, model=model
        )
    stays = _stays(value, case)
    why = stays or next(
        filter(
            None,
            (_memory(value, case, model), _beyond(value, case), _limits(value, case, attainment)),
        ),
        "",
    )
    return Assessed(
        value=value,
        allowed=bool(stays) or not why,
        why=why,
        attainment=attainment,
        needed_bytes=needed,
    )


def _stays(value: int, case: Feasibility) -> str:
    if value == case.now:
        return f"{value} is in force"
    return f"{value} is the baseline" if value == case.baseline else ""


def _memory(value: int, case: Feasibility, model: PlantSettings) -> str:
    if case.wall is None:
        return ""
    return case.wall.refusal(
        value, context_tokens=case.context_tokens, now_us=case.now_us, model=model
    )


def _beyond(value: int, case: Feasibility) -> str:
    known = {one for one in (case.now, case.baseline) if one is not None} | case.tested
    far = steps_beyond(value, known, case.ladder)
    if not known or far <= FURTHEST:
        return ""
    return (
        f"{value} is {far} ladder values beyond what was tested ({_span(sorted(known))}), "
        f"one is the most"
    )


def _limits(value: int, case: Feasibility, attainment: dict[str, float]) -> str:
    for offer in case.offers:
        predicted = attainment.get(offer.name)
        asked = min(offer.slo.attainment, case.enough.get(offer.name, 1.0))
        if predicted is not None and predicted < asked:
            return (
                f"{value} is predicted to keep {predicted:.1%} of {offer.name} within its limits, "
                f"{asked:.1%} is asked for"
            )
    return ""


def _attainment(value: int, case: Feasibility) -> dict[str, float]:
    if case.curve is None:
        return {}
    factor = 1.0 if case.residual is None else case.residual.at(value).worst()
    return {
        offer.name: predict(slower(case.curve, factor), cap=value, load=offer.load).attainment(
            offer.slo, output_tokens=offer.load.output_tokens
        )
        for offer in case.offers
    }


def slower(curve: StepCurve, factor: float) -> StepCurve:
    """The curve with every step so many times as long: what is offered then fills more of it."""
    return StepCurve(
        base_us=curve.base_us * factor,
        per_decode_us=curve.per_decode_us * factor,
        per_prefill_us=curve.per_prefill_us * factor,
        steps=curve.steps,
        residual=curve.residual,
        form=curve.form,
    )


def _span(known: Sequence[int]) -> str:
    return f"{known[0]}" if len(known) == 1 else f"{known[0]} to {known[-1]}"

"""Menus, contexts and histories that the tests of this folder share."""

from __future__ import annotations

import numpy as np

from controller.learner.aimd import Aimd
from controller.learner.formula_only import FormulaOnly
from controller.learner.port import Action, Arm, Context, Menu
from controller.learner.registry import ALGORITHMS, AnyLearner
from controller.learner.static import Static
from controller.learner.timetable_oracle import Slot, TimetableOracle
from controller.plant.step_curve import StepCurve
from policies.laws import Law, LawStep
from policies.settings import Setting

LADDER = (2, 4, 8, 16, 32)
SECOND = 1_000_000


def cap(value: int, *, expected: float = 0.0) -> Action:
    arm = Arm.on(LADDER, "active_cap", Setting(value=value))
    return Action.of(arm, expected=expected)


def law(default: int, value: int) -> Action:
    steps = (LawStep(above=0.0, value=value),)
    setting = Setting(law=Law(variable="arrivals", window_s=2.0, default=default, steps=steps))
    return Action.of(Arm.on(LADDER, "active_cap", setting))


def menu(actions: tuple[Action, ...], *, without: tuple[int, ...] = (), baseline: int = 0) -> Menu:
    mask = tuple(index not in without for index in range(len(actions)))
    return Menu(actions=actions, mask=mask, baseline=baseline, current=baseline)


CAPS = tuple(cap(value) for value in LADDER)
WITH_LAW = (*CAPS, law(32, 4))
CONTEXT = Context.of({"arrivals_per_s": 3.0, "offered_tokens_per_s": 900.0})

CURVE = StepCurve(base_us=20e3, per_decode_us=2e3, per_prefill_us=0.0, steps=9, residual=0.0)
LEARNERS: dict[str, AnyLearner] = {
    **ALGORITHMS,
    "static, one action": Static(action_id=CAPS[2].id),
    "aimd in the middle": Aimd(wanted=2.0),
    "formula with a curve": FormulaOnly(curve=CURVE, tpot_ms=45.0),
    "oracle with a timetable": TimetableOracle(
        slots=(Slot(from_us=0, action_id=CAPS[1].id), Slot(from_us=5, action_id=CAPS[3].id))
    ),
}
"""Every registered algorithm, and some of them with something to say."""


def taught(learner: AnyLearner, *, seed: int, outcomes: int = 40) -> AnyLearner:
    """After so many outcomes of random actions in random contexts, one a minute."""
    rng = np.random.default_rng(seed)
    for index in range(outcomes):
        at_us = index * 60 * SECOND
        learner = learner.learn_one(
            Context.of({"arrivals_per_s": float(rng.exponential(3.0))}),
            WITH_LAW[int(rng.integers(len(WITH_LAW)))],
            float(rng.random()),
            at_us=at_us,
            decided_us=at_us - int(rng.integers(30)) * SECOND if index else 0,
        )
    return learner

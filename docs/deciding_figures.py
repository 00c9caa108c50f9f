"""The figures of ``how-it-decides.md``, drawn from what the product's own code computes."""

from __future__ import annotations

from functools import cache

from controller.judge.verdict import rule_on
from controller.plant.laws import cap_for_tpot
from controller.plant.settings import PlantSettings
from controller.plant.step_curve import StepCurve
from controller.plant.step_forms import choose
from controller.trials import Trial, TrialPlan, arms, split_of
from docs.drawing import Paper, Scale, axes
from docs.judged_run import LADDER, LIMIT_MS, PLAN, with_an_effect, without_one
from policies.runtime_config import SessionSplit
from policies.session_split import arm_of

MODEL = PlantSettings()
CURVE_RHO = 0.25
"""Prompt tokens an output token: 50 for 200 of the jobs."""
THINNED = 12
"""One second of so many is shown."""
UNITS = 6
REPLICAS = ("r0", "r1", "r2", "r3")
SESSIONS = ("s1", "s2", "s3", "s4", "s5", "s6")


@cache
def curve() -> StepCurve:
    """What the plant model learns from the engine's seconds during the first trial."""
    found = choose(
        [second.steps for second in with_an_effect().seconds],
        (),
        prior_share=MODEL.prior_share,
        min_points=MODEL.min_points,
    )
    assert isinstance(found, StepCurve), found
    return found


def chosen() -> int:
    """The cap that a law would hold while chats arrive."""
    return cap_for_tpot(
        curve(),
        LIMIT_MS,
        prefill_per_decode=CURVE_RHO,
        ladder=LADDER,
        safety=MODEL.tpot_safety,
    )


def predicted_tpot() -> str:
    """Predicted time per output token against the cap, with the limit and the safety below it."""
    paper = Paper(760, 380, "Predicted time per output token against the cap")
    x = Scale(low=1, high=70, start=70, stop=720)
    y = Scale(low=0, high=80, start=310, stop=40)
    axes(paper, x, y, xs=LADDER, ys=range(0, 81, 20), names=("active_cap", "ms a token"))
    for second in with_an_effect().seconds[::THINNED]:
        if second.steps.n > 0:
            batch, took_us = second.steps.b / second.steps.n, second.steps.t / second.steps.n
            paper.dot(x.at(batch), y.at(took_us / 1000), 2.2, "dot")
    caps = [*range(1, 71)]
    model = curve()
    paper.line([(x.at(cap), y.at(model.tpot_ms(cap, CURVE_RHO))) for cap in caps], "one")
    for limit, words in (
        (LIMIT_MS, f"limit {LIMIT_MS} ms"),
        (LIMIT_MS / (1 + MODEL.tpot_safety), f"less the safety of {MODEL.tpot_safety:.0%}"),
    ):
        paper.line([(x.start, y.at(limit)), (x.stop, y.at(limit))], "limit")
        paper.text(x.stop, y.at(limit) - 6, words, "small end warn")
    for cap in LADDER:
        paper.dot(x.at(cap), y.at(model.tpot_ms(cap, CURVE_RHO)), 5, "mark")
    at = x.at(chosen()), y.at(model.tpot_ms(chosen(), CURVE_RHO))
    paper.text(at[0] + 6, at[1] + 24, f"{chosen()}: the largest that fits", "name")
    return paper.svg()


def designs() -> str:
    """Where the candidate is: a switchback's blocks, a crossover's halves, a split's sessions."""
    paper = Paper(860, 430, "Switchback, crossover, and split by session")
    paper.text(20, 28, "Switchback: two blocks a unit, in the order of a coin", "name")
    for unit in range(UNITS):
        for place, arm in enumerate(arms(PLAN.seed, unit)):
            _block(paper, 110 + unit * 124 + place * 58, 44, 58, arm == "candidate")
        paper.text(110 + unit * 124 + 58, 108, f"unit {unit}", "small middle")
    paper.text(20, 74, "engine")
    paper.text(20, 158, "Crossover: one block a unit, the coin swaps the halves", "name")
    first, second = split_of(PLAN.seed, REPLICAS) or ((), ())
    for row, half in enumerate((first, second)):
        paper.text(20, 202 + row * 48, " ".join(half))
        for unit in range(UNITS):
            candidate = arms(PLAN.seed, unit)[row] == "candidate"
            _block(paper, 110 + unit * 124, 174 + row * 48, 116, candidate)
    paper.text(20, 312, "By session: each one has its arm, on every replica", "name")
    split = SessionSplit(salt=str(PLAN.seed), share=0.5)
    for at, session in enumerate(SESSIONS):
        arm = arm_of(split, session)
        _letter(paper, 110 + at * 124, 326, 116, arm == "candidate", f"{session}: {_name(arm)}")
    paper.box(110, 390, 14, 14, "void")
    paper.text(132, 402, "washout, not counted")
    paper.box(290, 390, 14, 14, "base")
    paper.text(312, 402, "B: the baseline")
    paper.box(440, 390, 14, 14, "cand")
    paper.text(462, 402, "C: the candidate")
    return paper.svg()


def evidence() -> str:
    """E after each unit, for a law that is better and for a change that is none."""
    effect, nothing = with_an_effect(), without_one()
    paper = Paper(860, 420, "Evidence after each unit, with an effect and without one")
    x = Scale(low=0, high=PLAN.max_units, start=70, stop=820)
    y = Scale(low=0.05, high=1000, start=350, stop=40, log=True)
    axes(
        paper,
        x,
        y,
        xs=range(0, PLAN.max_units + 1, 10),
        ys=(0.1, 1, 10, 100, 1000),
        names=("units", "E, evidence against no effect"),
    )
    for limit, words in (
        (1 / PLAN.alpha, "IMPROVED: 1/α"),
        ((len(PLAN.guards) + 1) / PLAN.alpha, "HARMED: (guards + 1)/α"),
    ):
        paper.line([(x.start, y.at(limit)), (x.stop, y.at(limit))], "limit")
        paper.text(x.stop, y.at(limit) - 6, words, "small end warn")
    for judged, test, style in (
        (nothing, "U<0", "three"),
        (nothing, "U>0", "one"),
        (effect, "U>0", "two"),
    ):
        path = judged.path(test)
        paper.line([(x.at(unit), y.at(e)) for unit, e in enumerate(path)], style)
    last = len(effect.units)
    paper.text(x.at(last) + 10, y.at(30), f"the law: IMPROVED after {last} units", "name")
    paper.text(x.at(25), y.at(16), "nothing changed: better?", "small")
    paper.text(x.at(25), y.at(0.11), "nothing changed: worse?", "small")
    return paper.svg()


def least_units(plan: TrialPlan) -> int:
    """Units that IMPROVED takes when every one of them shows as much as a unit can."""
    unit = with_an_effect().units[0]
    count = 1
    while True:
        units = tuple(
            type(unit)(index=at, blocks=(), d={"U": 10.0, "attainment:live": 0.0}, judged=True)
            for at in range(count)
        )
        if rule_on(Trial(plan=plan, units=units, began_us=0)).verdict == "IMPROVED":
            return count
        count += 1


def _block(paper: Paper, x: float, y: float, width: float, candidate: bool) -> None:
    washout = width * PLAN.washout_s / 60.0
    paper.box(x, y, washout, 44, "void")
    _letter(paper, x + washout, y, width - washout - 2, candidate, "C" if candidate else "B")


def _letter(paper: Paper, x: float, y: float, width: float, candidate: bool, words: str) -> None:
    paper.box(x, y, width, 44, "cand" if candidate else "base")
    paper.text(x + width / 2, y + 27, words, "letter")


def _name(arm: str) -> str:
    return "C" if arm == "candidate" else "B"


FIGURES = {
    "predicted-tpot.svg": predicted_tpot,
    "designs.svg": designs,
    "evidence.svg": evidence,
}

"""Do the arms have as many sessions as the coin says? A sample ratio that is off voids the trial.

The idea: whoever loses a session before it is counted (a client that gives up, a record that is
lost, a hash that is not one) loses it in one arm more than in the other, and what is left cannot be
compared. So the number of sessions is tested against the share that was promised, after every unit,
by a test that may be looked at as often as one likes: a Bayes factor with a uniform prior, whose
expectation is 1 under the promised share, so that by Ville's inequality it ever reaches 1/alpha
with a probability of at most alpha::

    E(n1, n0) = B(n1 + 1, n0 + 1) / (share^n1 · (1 − share)^n0)

with B the beta function, n1 sessions in the candidate's arm and n0 in the baseline's.

>>> round(balance_e(5_000, 5_000), 4), balance_e(5_300, 4_700) > 1000
(0.0125, True)

Source: M. Lindon and A. Malek, *Anytime-Valid Inference for Multinomial Count Data* (2022), the
sequential test of a sample ratio mismatch. Why not a chi-square test: looked at after each of 60
units it fires in far more trials than its level says.
"""

from __future__ import annotations

import math
from typing import Final

from controller.trials import Trial

BALANCE_ALPHA: Final = 0.001
"""A check of the machinery and no verdict on the candidate: it must hardly ever fire by chance."""


def balance_e(candidate: int, baseline: int, *, share: float = 0.5) -> float:
    """The evidence against the promised share; inf beyond what a float holds."""
    beta = math.lgamma(candidate + 1) + math.lgamma(baseline + 1)
    beta -= math.lgamma(candidate + baseline + 2)
    promised = candidate * math.log(share) + baseline * math.log1p(-share)
    return math.exp(min(beta - promised, 700.0))


def unbalanced(trial: Trial) -> str | None:
    """Why the arms' sessions can't be as they were tossed; None: they may be.

    Sessions of units with too few requests count too: that an arm has none may be why.
    """
    if trial.plan.design != "session_split":
        return None
    candidate, baseline = (
        sum(unit.sessions.get(arm, 0) for unit in trial.units) for arm in ("candidate", "baseline")
    )
    if balance_e(candidate, baseline, share=trial.plan.share) < 1 / BALANCE_ALPHA:
        return None
    return (
        f"sample ratio mismatch: {candidate} sessions on the candidate and {baseline} on the"
        f" baseline are not a share of {trial.plan.share:g}"
    )

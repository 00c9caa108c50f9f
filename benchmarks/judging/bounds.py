"""Upper bounds of a share whose trials share paths of load.

Trials on one path are less than independent, so the number of trials is divided by the design
effect: the variance of the share between paths over what independent trials would have. Clopper
and Pearson's bound is taken with that effective number. The design effect is never taken below 1;
where nothing happened it can't be estimated and is 1: given a path, its coins are independent.

Reference: E. Korn and B. Graubard, "Confidence intervals for proportions with small expected number
of positive counts estimated from survey data", Survey Methodology 24 (1998).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import betaincinv, stdtrit

CONFIDENCE = 0.95


def clustered_upper(events: Sequence[int], trials: Sequence[int]) -> float:
    """The upper 95 % bound of the share; both sequences have one number for each path.

    >>> round(clustered_upper([0] * 40, [25] * 40), 4)
    0.003
    >>> spread, heaped = [1] * 10 + [0] * 30, [10] + [0] * 39
    >>> clustered_upper(spread, [25] * 40) < clustered_upper(heaped, [25] * 40)
    True
    """
    found, tried = np.asarray(events, dtype=float), np.asarray(trials, dtype=float)
    total, paths = float(tried.sum()), len(tried)
    share = float(found.sum()) / total
    if share in (0.0, 1.0) or paths < 2:
        return _upper(share * total, total)
    residuals = found - share * tried
    variance = paths / (paths - 1) * float((residuals**2).sum()) / total**2
    effect = max(1.0, variance * total / (share * (1 - share)))
    small = (stdtrit(total - 1, CONFIDENCE) / stdtrit(paths - 1, CONFIDENCE)) ** 2
    effective = float(total / effect * small)
    return _upper(share * effective, effective)


def _upper(events: float, trials: float) -> float:
    return 1.0 if events >= trials else float(betaincinv(events + 1, trials - events, CONFIDENCE))

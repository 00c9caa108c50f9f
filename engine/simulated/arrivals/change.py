"""A sudden change: one stream until a moment, another from then on.

Rate, lengths, kinds: whatever the two differ in changes at once, as after a client's deploy.

>>> from engine.simulated.arrivals.kinds import LIVE
>>> from engine.simulated.offered import Offered
>>> def every(gap_s, output): return (
...     Offered(arrival_s=i * gap_s, intent="live", class_="interactive", prompt_tokens=9,
...             output_tokens=output) for i in range(100))
>>> found = changed(every(2.0, 10), every(1.0, 99), at_s=4.0)
>>> [(o.arrival_s, o.output_tokens) for o, _ in zip(found, range(4))]
[(0.0, 10), (2.0, 10), (4.0, 99), (5.0, 99)]
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from engine.simulated.arrivals.bounds import MOST_S, within
from engine.simulated.arrivals.shaping import later, window
from engine.simulated.offered import Arrivals, Offered


def changed(before: Iterable[Offered], after: Iterable[Offered], *, at_s: float) -> Arrivals:
    """``before`` until ``at_s``, then all of ``after`` with its second 0 at ``at_s``."""
    within("at_s", at_s, 0.0, MOST_S)
    return chain(window(before, 0.0, at_s), later(after, at_s))

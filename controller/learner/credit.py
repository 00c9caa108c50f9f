"""The safety budget: explore only with what was earned over the baseline, and only while it lasts.

Over every rolling 24 h, utility must be at least κ = .97 of what the baseline would have earned.
Each unit i of work adds the surplus ``s_i = earned_i − κ·baseline_i`` (utility × seconds), which is
gone 24 h after the unit ended: good days do not pay for bad ones. A unit that could earn as little
as ``worst`` is allowed only if the promise holds now and would hold at each later moment at which a
surplus expires, were the baseline in force from then on:

    Σ_{i unexpired at τ} s_i + (worst − κ·u)·d + (1 − κ)·floor·(τ − end)  ≥  0   for every τ

u is the most that the baseline could earn now, ``floor`` the least that it will earn later. So for
*any* utilities of the actions that were let through, the promise is kept, as long as the baseline's
are within [floor, u] and later units no longer than this one. Otherwise the learner's menu is
masked to the baseline, and to what is in force if a trial has kept it.

>>> ledger = Ledger()
>>> for hour in range(10):
...     ledger = ledger.earned(at_us=hour * HOUR, span_s=3600, utility=0.8, baseline=0.8)
>>> ledger.allows(at_us=10 * HOUR, span_s=600, baseline=0.8, floor=0.5)
True
>>> ledger.allows(at_us=10 * HOUR, span_s=3600, baseline=0.8, floor=0.5)
False

Why not the plain sum at decision time, as conservative bandits have it: there credit never expires.
Where it does, a loss outlives the credit that paid for it, and the promise breaks hours later.

Reference: Y. Wu, R. Shariff, T. Lattimore, C. Szepesvári, "Conservative bandits" (ICML 2016).
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Final, Self

import msgspec
from msgspec import Struct

from controller.learner.masking import narrowed
from controller.learner.port import Menu, check_number
from controller.learner.settings import LearnerSettings
from policies.limits import HOUR_US, MICROS
from signals.errors import Rejected

HOUR: Final = HOUR_US
DEFAULTS: Final = LearnerSettings()


class Entry(Struct, frozen=True, kw_only=True):
    """One unit's surplus, in utility × seconds. ``end_us``: when it ended."""

    end_us: int
    surplus: float


class Ledger(Struct, frozen=True, kw_only=True):
    """Surpluses of the units that ended within the horizon, in order.

    ``least``: κ. Units are not shorter than ``min_unit_s``, which bounds the entries.
    """

    least: float = DEFAULTS.least_utility
    horizon_s: float = DEFAULTS.horizon_s
    min_unit_s: float = DEFAULTS.min_unit_s
    entries: tuple[Entry, ...] = ()

    @classmethod
    def of(cls, settings: LearnerSettings) -> Self:
        """Nothing earned yet."""
        return cls(
            least=settings.least_utility,
            horizon_s=settings.horizon_s,
            min_unit_s=settings.min_unit_s,
        )

    def earned(self, *, at_us: int, span_s: float, utility: float, baseline: float) -> Self:
        """The ledger after a unit that began at ``at_us``. Utilities are means, 0..1.

        ``baseline``: what it earned beside (a trial's other arm), else the most it could have.
        Raises ``Rejected`` for a unit that is too short, or begins before the last one ended.
        """
        self._check(at_us, span_s, utility=utility, baseline=baseline)
        end_us = at_us + round(span_s * MICROS)
        surplus = (utility - self.least * baseline) * span_s
        return type(self)(
            least=self.least,
            horizon_s=self.horizon_s,
            min_unit_s=self.min_unit_s,
            entries=(*self._unexpired(end_us), Entry(end_us=end_us, surplus=surplus)),
        )

    def balance(self, *, at_us: int) -> float:
        """Surplus of the last horizon, in utility × seconds; negative: the promise is broken."""
        return math.fsum(entry.surplus for entry in self._unexpired(at_us))

    def allows(
        self, *, at_us: int, span_s: float, baseline: float, floor: float, worst: float = 0.0
    ) -> bool:
        """Whether a unit that earns ``worst`` could be made up for, whatever expires when.

        ``baseline``: the most that the baseline could earn in this unit, ``floor``: the least that
        it will earn in any later one.
        """
        self._check(at_us, span_s, worst=worst, baseline=baseline, floor=floor)
        end_us = at_us + round(span_s * MICROS)
        horizon_us = round(self.horizon_s * MICROS)
        loss = (worst - self.least * baseline) * span_s
        left = list(self._unexpired(end_us))
        remaining = math.fsum([*(entry.surplus for entry in left), loss])
        if remaining < 0:
            return False
        for entry in left:
            remaining -= entry.surplus
            # the unit under way at that moment has not been counted yet
            whole_s = max(0.0, (entry.end_us + horizon_us - end_us) / MICROS - span_s)
            if remaining + (1 - self.least) * floor * whole_s < 0:
                return False
        return True

    def _unexpired(self, at_us: int) -> tuple[Entry, ...]:
        """Those that ended less than a horizon before."""
        since_us = at_us - round(self.horizon_s * MICROS)
        return tuple(entry for entry in self.entries if entry.end_us > since_us)

    def _check(self, at_us: int, span_s: float, **utilities: float) -> None:
        for name, value in utilities.items():
            check_number(name, value, 1.0)
            if value < 0:
                raise Rejected("a utility is within 0..1", field=name, value=value, allowed="0..1")
        if not self.min_unit_s <= span_s <= self.horizon_s:
            raise Rejected(
                "a unit is too short or too long",
                field="span_s",
                value=span_s,
                allowed=f"{self.min_unit_s:g}..{self.horizon_s:g} s",
            )
        if self.entries and at_us < self.entries[-1].end_us:
            raise Rejected(
                "units follow each other",
                field="at_us",
                value=at_us,
                allowed=f">= {self.entries[-1].end_us}",
            )


def within_budget(
    menu: Menu,
    ledger: Ledger,
    *,
    at_us: int,
    span_s: float,
    baseline: float,
    floor: float,
    current_is_kept: bool,
) -> Menu:
    """The menu as it is, or masked to the baseline, and to what is in force if that was judged.

    ``current_is_kept``: a trial found that what is in force is no worse. If not, staying with it is
    exploring like anything else, and the baseline is all that is left.
    """
    if ledger.allows(at_us=at_us, span_s=span_s, baseline=baseline, floor=floor):
        return menu
    return spent(menu, ledger, at_us=at_us, current_is_kept=current_is_kept)


def spent(
    menu: Menu,
    ledger: Ledger,
    *,
    at_us: int,
    current_is_kept: bool,
    free: Collection[str] = (),
) -> Menu:
    """The menu of a learner that can't pay for anything: see ``within_budget``.

    ``free``: ids of actions that lead towards the baseline or to the safer side, and cost nothing.
    """
    words = f"the safety budget is spent: {ledger.balance(at_us=at_us):.0f} utility-seconds left"
    if not current_is_kept:
        menu = msgspec.structs.replace(menu, current=menu.baseline)
    refusals = {action.id: words for action in menu.actions if action.id not in free}
    return narrowed(menu, refusals)

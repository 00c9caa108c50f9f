"""What guardrails allow on one place of one target: plain figures, resolved from what was declared.

The most specific declaration wins: the knob's, then the target's, then everywhere's.
"""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Final, Literal

from msgspec import Struct

from policies.knobs import Safer

MICROS: Final = 1_000_000
HOUR_US: Final = 3_600 * MICROS

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: Final[tuple[Day, ...]] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


class FreezeWindow(Struct, frozen=True, kw_only=True):
    """A time of the week in which nothing new begins, by the clocks of ``zone``.

    A window whose end is not after its beginning reaches into the next day.
    """

    days: tuple[Day, ...]
    begins: time
    ends: time
    zone: tzinfo = UTC
    zone_name: str = "UTC"

    def until_us(self, now_us: int) -> int | None:
        """When the window that is open now ends; None when it is not open.

        >>> rush = FreezeWindow(days=("mon",), begins=time(9), ends=time(11))
        >>> rush.until_us(0), FreezeWindow(days=("thu",), begins=time(0), ends=time(1)).until_us(0)
        (None, 3600000000)
        """
        now = datetime.fromtimestamp(now_us / MICROS, self.zone)
        for back in (0, 1):
            day = now.date() - timedelta(days=back)
            if DAYS[day.weekday()] not in self.days:
                continue
            begins = datetime.combine(day, self.begins, self.zone)
            last = day if self.ends > self.begins else day + timedelta(days=1)
            ends = datetime.combine(last, self.ends, self.zone)
            if begins <= now < ends:
                return round(ends.timestamp()) * MICROS
        return None

    def words(self) -> str:
        """``mon-fri 09:00-11:00 Europe/Berlin``."""
        days = ",".join(day for day in DAYS if day in self.days)
        return f"{days} {self.begins:%H:%M}-{self.ends:%H:%M} {self.zone_name}"


class Limits(Struct, frozen=True, kw_only=True):
    """The figures of one place. ``ladder`` rises; empty: no ladder.

    ``low``, ``high``: the declared bounds, within the engine's own; None: the engine's own.
    ``step``: ladder values per change; ``ladder_steps``: beyond what was tried, for rules.
    ``dwell_s``: between two changes of a place; ``steps_per_hour``: ladder values a place moves;
    ``max_per_hour``: policies applied to the target. ``flip_s``: no change of direction so soon.
    ``cooldown_s``: of the identical change, and of the first undone move; it doubles with each
    further one up to ``cooldown_max_s``, and what counts for it halves every ``forgive_s``.
    ``max_pending``: policies that wait for a person; ``max_moving``: places of the target that
    policies change at once; ``max_kept``: places that kept policies hold off the baseline;
    ``max_replicas``: replicas that one change reaches.
    """

    low: int | None = None
    high: int | None = None
    ladder: tuple[int, ...] = ()
    safer: Safer | None = None
    step: int = 8
    ladder_steps: int = 1
    dwell_s: float = 60.0
    steps_per_hour: int = 24
    max_per_hour: int = 12
    flip_s: float = 300.0
    cooldown_s: float = 600.0
    cooldown_max_s: float = 86_400.0
    forgive_s: float = 21_600.0
    max_pending: int = 16
    max_moving: int = 1
    max_kept: int = 16
    max_replicas: int = 64
    windows: tuple[FreezeWindow, ...] = ()

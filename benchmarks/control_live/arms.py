"""What takes turns on the engine, and the order in which it does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from policies.laws import Law, LawStep
from policies.settings import Setting

SMALL: Final = 4
LARGE: Final = 64
LAW: Final = Law(
    variable="arrivals",
    class_="interactive",
    window_s=2.0,
    default=LARGE,
    steps=(LawStep(above=0.0, value=SMALL),),
    min_dwell_s=1.0,
)


class Arm(Struct, frozen=True, kw_only=True):
    """``setting`` None: nobody sets anything, so that the loop and its rule decide."""

    name: str
    words: str
    setting: Setting | None


ARMS: Final = (
    Arm(name="static small", words=f"cap {SMALL}", setting=Setting(value=SMALL)),
    Arm(name="static large", words=f"cap {LARGE}", setting=Setting(value=LARGE)),
    Arm(name="rule", words=f"cap {LARGE}, and the emergency rule", setting=None),
    Arm(
        name="law",
        words=f"cap {Setting(law=LAW).words()}; imported as kept, not judged here",
        setting=Setting(law=LAW, shrink="preempt"),
    ),
)


def turns(cycle: int) -> Sequence[Arm]:
    """The arms of a cycle in their order, which turns round each time.

    >>> [[arm.name[-1] for arm in turns(cycle)] for cycle in (0, 1)]
    [['l', 'e', 'e', 'w'], ['w', 'e', 'e', 'l']]
    """
    return ARMS if cycle % 2 == 0 else ARMS[::-1]

"""Emergency rules act first, so each may only move in a direction that was declared safer. Pure.

``up`` and ``down`` must be that direction. A value of its own must not lie beyond the declared
baseline against it; where no direction is declared, only the baseline's own value is safe, since
every way to it leads towards the baseline.

>>> refusal("down", safer="down", baseline=8), refusal(8, safer=None, baseline=8)
(None, None)
>>> refusal("down", safer=None, baseline=8)
'no direction is declared safer'
>>> refusal("up", safer="down", baseline=8), refusal(16, safer="down", baseline=8)
('up is against the safer direction, down', '16 is above the baseline, 8, and down is safer')
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controller.rules.settings import Move, RuleSettings
from policies.knobs import Safer
from signals.errors import Rejected


def check_emergencies(
    declared: Iterable[RuleSettings],
    *,
    safer: Mapping[str, Safer | None],
    baseline: Mapping[str, int],
) -> None:
    """Raise ``Rejected`` (field ``rules[n].propose``) for an emergency that is not safe."""
    for index, one in enumerate(declared):
        for knob, move in one.propose.items():
            why = (
                refusal(move, safer=safer.get(knob), baseline=baseline.get(knob))
                if one.emergency
                else None
            )
            if why is not None:
                raise Rejected(
                    f"rule {one.id} is an emergency and proposes {knob}: {move}, but {why}",
                    field=f"rules[{index}].propose",
                    value=f"{knob}: {move}",
                    allowed=f"what knobs.{knob}.safer declares, or the baseline's value",
                )


def refusal(move: Move, *, safer: Safer | None, baseline: int | None) -> str | None:
    """Why an emergency may not move so; None: it may."""
    if isinstance(move, str):
        if safer is None:
            return "no direction is declared safer"
        return None if move == safer else f"{move} is against the safer direction, {safer}"
    if baseline is None:
        return "the knob has no declared baseline to compare it with"
    if safer is None:
        return None if move == baseline else "no direction is declared safer"
    if against(safer, before=baseline, after=move):
        side = "above" if move > baseline else "below"
        return f"{move} is {side} the baseline, {baseline}, and {safer} is safer"
    return None


def against(safer: Safer | None, *, before: int, after: int) -> bool:
    """Whether a step leads away from what is safer; never where nothing is declared.

    >>> against("down", before=8, after=16), against("up", before=8, after=16)
    (True, False)
    """
    return (safer == "down" and after > before) or (safer == "up" and after < before)

"""What an open block of the holdback wishes of the engines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from controller.desired import Held
from controller.holdback.drawing import holdback_of, stamp_of
from policies.settings import Layer, split
from signals.events import MICROS

EXPIRY_GRACE_S: Final = 15.0
"""The baseline outlives its block by this much if the controller dies, never more."""


def held(noted: Mapping[str, str], *, now_us: int, skew_us: int = 0) -> Held | None:
    """Its stamp, and in the baseline's arm what lies over the kept layers; None without a block.

    The baseline ends by itself after its block, and what is kept is back, should nobody end it.
    """
    found = holdback_of(noted)
    now = None if found is None else found.open
    if found is None or now is None:
        return None
    began_us = now.block.began_us
    since_us = now_us if began_us is None else began_us - skew_us
    expires_us = since_us + round((found.plan.block_s + EXPIRY_GRACE_S) * MICROS)
    as_usual = now.block.arm == "candidate" or now.lifted is not None or expires_us <= now_us
    layers = tuple(
        Layer(
            knob=split(at)[0],
            scope=split(at)[1],
            setting=setting,
            policy_id=found.plan.id,
            kind="arm",
            expires_us=expires_us,
        )
        for at, setting in sorted(found.settings.items())
    )
    return Held(stamp=stamp_of(found.plan, now.block), layers=() if as_usual else layers)

"""Proposals, policies and limits, as the tests of guardrails and risk need them."""

from __future__ import annotations

from typing import Any

import msgspec

from policies.knobs import KnobSpec
from policies.laws import Law, LawStep
from policies.limits import Limits
from policies.policy import Origin, Policy
from policies.proposal import Proposal
from policies.settings import Setting

NOW_US = 1_700_000_000_000_000
SECOND_US = 1_000_000

CAP = KnobSpec(name="active_cap", unit="sequences", low=1, capacity=64, boot=64, effect_delay_s=1.0)
FIXED = msgspec.structs.replace(CAP, name="block_tokens", capability="restart")
LADDER = (2, 4, 8, 16, 32, 64)
RULE, PLANT = Origin(kind="rule", name="idle"), Origin(kind="plant", name="step_curve")
PERSON = Origin(kind="person", name="prn_1")


def limited(**changes: Any) -> Limits:
    """Limits that only stop what a test asks them to stop."""
    lax = Limits(ladder=LADDER, dwell_s=0.0, flip_s=0.0, max_pending=2, max_per_hour=3)
    return msgspec.structs.replace(lax, **changes)


def law(cap: int, *, above: float = 0.0) -> Setting:
    steps = (LawStep(above=above, value=cap),)
    return Setting(
        law=Law(variable="arrivals", class_="interactive", window_s=2.0, default=64, steps=steps)
    )


def wish(value: int | Setting = 16, *, before: int = 8, **changes: Any) -> Proposal:
    proposal = Proposal(
        target="chat",
        knob="active_cap",
        setting=value if isinstance(value, Setting) else Setting(value=value),
        before=Setting(value=before),
        origin=RULE,
        reason="because",
    )
    return msgspec.structs.replace(proposal, **changes)


def policy(value: int = 16, *, before: int = 8, **changes: Any) -> Policy:
    made = Policy(
        id="pol_1",
        target="chat",
        knob="active_cap",
        before=Setting(value=before),
        setting=Setting(value=value),
        origin=RULE,
        reason="because",
        mode="auto",
        proposed_by="rule:idle",
        created_us=NOW_US - 60 * SECOND_US,
        updated_us=NOW_US - 60 * SECOND_US,
    )
    return msgspec.structs.replace(made, **changes)

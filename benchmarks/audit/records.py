"""Policies as a rule would make them, numbered, with ids that rise with time."""

from __future__ import annotations

from policies.ids import new_id
from policies.policy import Effect, Guard, Origin, Policy
from policies.settings import Setting

BEGAN_US = 1_760_000_000_000_000
STEP_US = 40_000_000
"""Between two policies: 100,000 of them take 46 days."""
TARGETS = ("chat", "search", "batch", "code")


def a_policy(number: int, *, target: str | None = None) -> Policy:
    """The ``number``-th policy, in state proposed."""
    at_us = BEGAN_US + number * STEP_US
    return Policy(
        id=new_id("pol", at_us, number.to_bytes(8, "big")),
        target=target or TARGETS[number % len(TARGETS)],
        knob="active_cap",
        before=Setting(value=8),
        setting=Setting(value=16),
        origin=Origin(kind="rule", name="idle"),
        reason="live.attainment 0.991 > 0.98 and batch.waiting 12 > 0 for 60 s",
        evidence={"live.attainment": 0.991, "batch.waiting": 12.0},
        expected=Effect(metric="U", estimate=0.04, low=0.01, high=0.07, source="plant"),
        guards=(Guard(metric="attainment:live", margin=0.05),),
        mode="approve",
        proposed_by="rule:idle",
        created_us=at_us,
        updated_us=at_us,
        expires_us=at_us + 3_600_000_000,
    )

"""The knobs of the embedded engine, with the capacity that was measured when it started."""

from __future__ import annotations

from policies.knobs import KnobSpec

ACTIVE_CAP = "active_cap"
STEP_TOKEN_BUDGET = "step_token_budget"
LOWEST_BUDGET = 32


def embedded_knobs(
    *,
    capacity_active: int,
    capacity_budget: int,
    boot_active_cap: int | None,
    boot_step_token_budget: int | None,
) -> tuple[KnobSpec, ...]:
    """Specs of ``active_cap`` and ``step_token_budget``; an unset boot value is the capacity.

    A boot value above the capacity is lowered to it: the capacity is only known once measured.
    """
    return (
        KnobSpec(
            name=ACTIVE_CAP,
            unit="sequences",
            low=1,
            capacity=capacity_active,
            boot=min(boot_active_cap or capacity_active, capacity_active),
            capability="drain",
            effect_delay_s=2.0,
            risk="medium",
            doc="sequences that may run at once; lowering drains, or preempts the lowest class",
        ),
        KnobSpec(
            name=STEP_TOKEN_BUDGET,
            unit="tokens",
            low=min(LOWEST_BUDGET, capacity_budget),
            capacity=capacity_budget,
            boot=min(boot_step_token_budget or capacity_budget, capacity_budget),
            capability="live",
            effect_delay_s=1.0,
            risk="low",
            doc="tokens one step computes at most: one per running sequence, the rest is prefill",
        ),
    )

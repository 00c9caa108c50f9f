"""The knobs of the embedded engine, with the capacity that was measured when it started.

``active_cap`` and ``step_token_budget`` are shared by all that runs. ``answer_tokens`` is not: it
bounds the answer of a request when that arrives, so each intent may have its own, and half of the
sessions another than the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

from policies.knobs import TARGET_SCOPE, KnobSpec

ACTIVE_CAP = "active_cap"
STEP_TOKEN_BUDGET = "step_token_budget"
ANSWER_TOKENS = "answer_tokens"
LOWEST_BUDGET = 32
LOWEST_ANSWER = 16


def embedded_knobs(
    *,
    capacity_active: int,
    capacity_budget: int,
    boot_active_cap: int | None,
    boot_step_token_budget: int | None,
    capacity_answer: int = 0,
    intents: Sequence[str] = (),
) -> tuple[KnobSpec, ...]:
    """The specs; an unset boot value is the capacity.

    A boot value above the capacity is lowered to it: the capacity is only known once measured.
    ``capacity_answer``: the longest context; 0: no ``answer_tokens``. ``intents`` may each have
    their own.
    """
    shared = (
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
    answer = _answer(capacity_answer, tuple(intents)) if capacity_answer else None
    return shared if answer is None else (*shared, answer)


def _answer(capacity: int, intents: tuple[str, ...]) -> KnobSpec:
    """Of high risk: what an answer that was cut short is worth, no figure of the engine shows."""
    return KnobSpec(
        name=ANSWER_TOKENS,
        unit="tokens",
        low=min(LOWEST_ANSWER, capacity),
        capacity=capacity,
        boot=capacity,
        capability="live",
        scopes=(TARGET_SCOPE, *intents),
        per_request=True,
        effect_delay_s=1.0,
        risk="high",
        doc="tokens an answer has at most, whatever its client asks; counts for requests that"
        " arrive from then on",
    )

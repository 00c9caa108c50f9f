"""The plant model's proposal: a law for the active cap, from the measured step curve.

With interactive requests about, the cap is the largest ladder value at which the curve predicts
TPOT within the strictest interactive limit; without them it is the ladder's top, where batch work
is fastest. One law says both, so the engine itself moves in the second the first request arrives::

    TPOT(b) = base + b·(c + p·ρ)        ρ = prompt tokens computed per token decoded
    rate(b) = b / TPOT(b)

It predicts steady full batches; what it does not know (queues, the mix inside a phase) is why a
proposal is tried before it is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from controller.plant.cycles import cycle_s
from controller.plant.feasible import Feasibility, allowed
from controller.plant.fingerprint import Fingerprint
from controller.plant.law_case import LawCase, evidence, expected, reason
from controller.plant.memory import Wall
from controller.plant.settings import PlantSettings
from controller.plant.step_curve import StepCurve, fit
from controller.plant.step_forms import choose
from controller.state import PlantInput
from policies.knobs import KnobSpec
from policies.laws import Law, LawStep
from policies.policy import Origin
from policies.proposal import Proposal
from policies.runtime_config import Shrink
from policies.settings import Setting
from signals.events import MICROS
from signals.settings import IntentSettings

ORIGIN: Final = Origin(kind="plant", name="step_curve", version="3")
"""``version`` rises whenever the same traffic would make it propose something else."""
INTERACTIVE: Final = "interactive"


class LawLimits(Protocol):
    """The trial settings that a proposed law is made of."""

    @property
    def law_window_s(self) -> float:
        """The law looks back this far for arrivals."""

    @property
    def law_min_dwell_s(self) -> float:
        """The law leaves a step no sooner."""

    @property
    def cycle_s(self) -> float | None:
        """The declared cycle of the context; None: measured."""


def cap_for_tpot(
    curve: StepCurve,
    tpot_ms: float,
    *,
    prefill_per_decode: float,
    ladder: Sequence[int],
    safety: float,
) -> int:
    """The largest ladder value whose predicted TPOT, ``safety`` added, is within the limit.

    The lowest value when none is: it misses by least. ``ladder`` rises and is not empty.
    """
    within = [
        cap for cap in ladder if curve.tpot_ms(cap, prefill_per_decode) * (1 + safety) <= tpot_ms
    ]
    return max(within, default=ladder[0])


def reference_tokens_per_s(
    plant: PlantInput, capacity: int, *, model: PlantSettings | None = None
) -> float:
    """Predicted output tokens per second at capacity: what U divides by. 0 without a curve."""
    curve = _fitted(plant, model or PlantSettings())
    return 0.0 if isinstance(curve, str) else curve.tokens_per_s(capacity, plant.prefill_per_decode)


def propose_law(
    target: str,
    intents: Mapping[str, IntentSettings],
    plant: PlantInput,
    *,
    spec: KnobSpec,
    ladder: Sequence[int],
    before: Setting,
    limits: LawLimits,
    model: PlantSettings | None = None,
) -> Proposal | str:
    """A law for ``spec``'s knob, or in words why there is none to propose now.

    ``ladder`` rises; ``before`` is what the knob has without trials.
    """
    model = model or PlantSettings()
    limit_ms = strictest_tpot_ms(intents)
    if limit_ms is None:
        return "no interactive intent has a TPOT limit"
    if len(ladder) < 2 or spec.capability in ("unsupported", "restart"):
        return f"{spec.name} can't be moved while the engine runs"
    # Arrivals are looked at first: the curve takes some 10 ms to fit, and this is asked for ever.
    share = interactive_share(law_of(ladder[0], ladder[-1], limits), intents, plant, limits)
    if isinstance(share, str):
        return share
    curve = usable_curve(plant, model)
    if isinstance(curve, str):
        return curve
    ladder = _within_memory(ladder, before.value, plant, model)
    if len(ladder) < 2:
        return "KV memory has room for one ladder value only"
    rho = plant.prefill_per_decode
    cap = cap_for_tpot(
        curve, limit_ms, prefill_per_decode=rho, ladder=ladder, safety=model.tpot_safety
    )
    if cap == ladder[-1]:
        return f"the ladder's top, {cap}, is predicted to meet {limit_ms:g} ms: no law is needed"
    law = law_of(cap, ladder[-1], limits)
    drain_s = drain_at_top_s(curve, plant, top=ladder[-1], now=before.value)
    setting = Setting(law=law, shrink=shrink_for(intents, drain_s, model))
    if before == setting:
        return "this law is in force already"
    case = LawCase(
        curve=curve,
        rho=rho,
        limit_ms=limit_ms,
        cap=cap,
        ladder=tuple(ladder),
        share=share,
        before=before.value,
    )
    return _proposal(target, spec.name, setting, before, case)


def strictest_tpot_ms(intents: Mapping[str, IntentSettings]) -> float | None:
    """The lowest TPOT limit of the interactive intents; None when none has one."""
    limits = [
        intent.slo.tpot_ms
        for intent in intents.values()
        if intent.class_ == INTERACTIVE and intent.slo.tpot_ms is not None
    ]
    return float(min(limits)) if limits else None


def drain_at_top_s(curve: StepCurve, plant: PlantInput, *, top: int, now: int | None) -> float:
    """How long work that runs at the cap ``top`` needs to finish, from what it needs at ``now``.

    The same tokens in longer steps. As seen where a law is in force already (``now`` None).
    """
    if now is None:
        return plant.drain_p95_s
    rho = plant.prefill_per_decode
    return plant.drain_p95_s * max(1.0, curve.tpot_ms(top, rho) / curve.tpot_ms(now, rho))


def shrink_for(
    intents: Mapping[str, IntentSettings], drain_s: float, model: PlantSettings
) -> Shrink:
    """How a cap comes down: the first interactive request must not wait for the drain.

    ``drain_s`` is how long running work still needs. Preempted work is computed again later.
    """
    limits_ms = [
        intent.slo.ttft_ms
        for intent in intents.values()
        if intent.class_ == INTERACTIVE and intent.slo.ttft_ms is not None
    ]
    if limits_ms and drain_s * 1000 > model.drain_share * min(limits_ms):
        return "preempt"
    return "drain"


def _fitted(plant: PlantInput, model: PlantSettings) -> StepCurve | str:
    """The curve in the better form where seconds are known one by one, else from their sums."""
    if len(plant.points) >= model.min_points:
        return choose(
            plant.points,
            plant.curve,
            prior_share=model.prior_share,
            min_points=model.min_points,
        )
    return fit(plant.moments, plant.curve, prior_share=model.prior_share)


def usable_curve(plant: PlantInput, model: PlantSettings) -> StepCurve | str:
    """The curve, once enough traffic was seen to know its mix of prompt and output tokens."""
    curve = _fitted(plant, model)
    if not isinstance(curve, str) and curve.steps < model.min_steps:
        return f"{curve.steps} steps seen, fewer than the {model.min_steps} a proposal needs"
    return curve


def _within_memory(
    ladder: Sequence[int], now: int | None, plant: PlantInput, model: PlantSettings
) -> tuple[int, ...]:
    """The values that KV memory has room for; all of them where the engine announced no layout.

    How far beyond tested values a law may go is for the guardrails and the trial.
    """
    if plant.kv is None:
        return tuple(ladder)
    case = Feasibility(
        ladder=tuple(ladder),
        now=now,
        baseline=None,
        tested=frozenset(ladder),
        now_us=0,
        wall=Wall.of(plant.kv, version=Fingerprint.read(plant.fingerprint).key),
        context_tokens=plant.context_tokens,
    )
    return allowed(case, model)


def law_of(cap: int, top: int, limits: LawLimits) -> Law:
    """``cap`` while interactive requests arrive, else ``top``."""
    return Law(
        variable="arrivals",
        class_=INTERACTIVE,
        window_s=limits.law_window_s,
        default=top,
        steps=(LawStep(above=0.0, value=cap),),
        min_dwell_s=limits.law_min_dwell_s,
    )


def interactive_share(
    law: Law, intents: Mapping[str, IntentSettings], plant: PlantInput, limits: LawLimits
) -> float | str:
    """The share of seconds in which the law would hold its cap, or why a law has no use yet."""
    counts = interactive_arrivals(intents, plant)
    held = seconds_held(counts, law.window_s)
    if held == 0:
        return f"no interactive request in the last {len(counts)} s"
    if held == len(counts):
        return f"interactive requests all the time in the last {len(counts)} s: nothing to switch"
    if limits.cycle_s is None and cycle_s(law, counts) is None:
        return "interactive requests come in no steady rhythm yet, so a law can't be tried fairly"
    return held / len(counts)


def interactive_arrivals(
    intents: Mapping[str, IntentSettings], plant: PlantInput
) -> list[tuple[int, float]]:
    """(end of second µs, arrivals of interactive requests in it), by time."""
    names = [name for name, intent in intents.items() if intent.class_ == INTERACTIVE]
    return [(at, float(sum(seen.get(n, 0) for n in names))) for at, seen in plant.arrivals]


def seconds_held(counts: Sequence[tuple[int, float]], window_s: float) -> int:
    """Seconds in which something arrived, or had within the window before."""
    held, last_us = 0, None
    for at_us, count in counts:
        last_us = at_us if count > 0 else last_us
        held += last_us is not None and at_us - last_us < window_s * MICROS
    return held


def _proposal(target: str, knob: str, setting: Setting, before: Setting, case: LawCase) -> Proposal:
    return Proposal(
        target=target,
        knob=knob,
        setting=setting,
        before=before,
        origin=ORIGIN,
        reason=reason(case),
        evidence=evidence(case),
        expected=expected(case),
    )

"""The case for a law: its figures, and the reason, evidence and expectation made from them."""

from __future__ import annotations

from msgspec import Struct

from controller.plant.step_curve import StepCurve
from policies.policy import Effect


class LawCase(Struct, frozen=True, kw_only=True):
    """What a law is made from, once all of it is known. ``share``: of time with interactive."""

    curve: StepCurve
    rho: float
    limit_ms: float
    cap: int
    ladder: tuple[int, ...]
    share: float
    before: int | None

    @property
    def top(self) -> int:
        """The cap without interactive requests."""
        return self.ladder[-1]

    def tpot_ms(self, cap: int) -> float:
        """Predicted mean time per output token."""
        return self.curve.tpot_ms(cap, self.rho)

    def rate(self, cap: int) -> float:
        """Predicted output tokens per second, with work always waiting."""
        return self.curve.tokens_per_s(cap, self.rho)

    def law_rate(self) -> float:
        """The same under the law."""
        return self.share * self.rate(self.cap) + (1 - self.share) * self.rate(self.top)


def reason(case: LawCase) -> str:
    """Why, in words made from the figures."""
    cap, top = case.cap, case.top
    higher = next(value for value in case.ladder if value > cap)
    if case.tpot_ms(cap) <= case.limit_ms:
        meets = f"a cap of {cap} is predicted at {case.tpot_ms(cap):.0f} ms, {higher} at"
    else:
        meets = f"no ladder value is predicted to, a cap of {cap} misses by least with"
        meets += f" {case.tpot_ms(cap):.0f} ms, {higher} takes"
    instead = f" instead of {case.rate(case.before):.0f} at {case.before}" if case.before else ""
    return (
        f"interactive requests must stay within {case.limit_ms:g} ms a token: {meets} "
        f"{case.tpot_ms(higher):.0f} ms. They are there {case.share:.0%} of the time; without them "
        f"a cap of {top} makes {case.rate(top):.0f} tokens/s{instead}. Measured over "
        f"{case.curve.steps} steps: {case.curve.words()}, {case.rho:.1f} prompt tokens an output "
        f"token{_compared(case.curve)}"
    )


def _compared(curve: StepCurve) -> str:
    """Both forms' errors, where they were compared."""
    if curve.line_error is None or curve.log_error is None:
        return ""
    return (
        f"; a line in the sequences is off by {curve.line_error:.1%} of a step it was not fitted "
        f"on, one in their logarithm by {curve.log_error:.1%}"
    )


def evidence(case: LawCase) -> dict[str, float]:
    """The figures behind the reason, by name; ms, sequences, tokens/s, shares."""
    found = {
        "tpot_limit_ms": case.limit_ms,
        "cap": float(case.cap),
        "predicted_tpot_ms": case.tpot_ms(case.cap),
        "capacity": float(case.top),
        "predicted_tpot_ms_at_capacity": case.tpot_ms(case.top),
        "predicted_tokens_per_s": case.law_rate(),
        "base_ms": case.curve.base_us / 1000,
        "per_sequence_ms": case.curve.per_decode_us / 1000,
        "per_prompt_token_ms": case.curve.per_prefill_us / 1000,
        "prefill_per_decode": case.rho,
        "steps": float(case.curve.steps),
        "residual": case.curve.residual,
        "interactive_share": case.share,
        "stalled_seconds_left_out": float(case.curve.left_out),
    }
    for form, error in (("line", case.curve.line_error), ("log", case.curve.log_error)):
        if error is not None:
            found[f"{form}_form_error"] = error
    return {name: round(value, 4) for name, value in found.items()}


def expected(case: LawCase) -> Effect | None:
    """Change of output tokens per second while work waits; the range is the curve's own error.

    Nothing is expected from a law whose predecessor is a law too: its share is not known.
    """
    if case.before is None:
        return None
    before, after, error = case.rate(case.before), case.law_rate(), case.curve.residual
    spread = error * (before + after)
    return Effect(
        metric="tokens_per_s:target",
        estimate=round(after - before, 1),
        low=round(after - before - spread, 1),
        high=round(after - before + spread, 1),
        source=f"step curve, ± its residual of {error:.0%}; only while work waits",
    )

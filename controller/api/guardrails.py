"""``/v1/guardrails``: what would become of a change, and every bound as it is in force."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter, Response

from controller.api.access import Caller, Wired, check_target
from controller.api.answers import Answer
from controller.api.bodies import HypotheticalBody
from controller.api.problems import documented
from controller.api.shown import GuardrailsShown, LimitsShown, RailShown
from controller.limiting import limits_of
from controller.state import Declared
from controller.store.port import Tx
from policies.guardrails import RAILS
from policies.knobs import KnobSpec
from policies.policy import Mode
from signals.errors import Unavailable
from signals.events import MICROS

router = APIRouter(prefix="/v1", tags=["guardrails"])

NO_FIGURES = {"low", "high", "ladder", "safer", "windows"}


@router.post("/guardrails/evaluate", responses=documented(404, 422))
def evaluated(body: HypotheticalBody, services: Wired, caller: Caller) -> Response:
    """Test a hypothetical change: every guardrail with its figures, the risk, what would follow.

    Nothing is changed, and nothing is recorded.
    """
    check_target(caller, body.target)
    return Answer(
        services.operations.evaluate(
            body.target,
            body.knob,
            body.setting.setting(),
            scope=body.scope,
            origin=body.origin,
            emergency=body.emergency,
        )
    )


@router.get("/targets/{target}/guardrails", responses=documented(404, 422))
def shown(target: str, services: Wired) -> Response:
    """The bounds in force for each knob, whom each guardrail binds, what suspends trials now."""
    declared = services.operations.target(target)
    seen = services.fleet.first(target).read(max_age_s=60.0)
    if seen is None:
        raise Unavailable(f"the engine of {target} does not answer, so its knobs are unknown")
    now_us = services.clock()
    settle_us = declared.guardrails.settle_s * MICROS
    with services.store.read() as tx:
        knobs = {spec.name: _limits(tx, declared, spec) for spec in seen.knobs}
        changes = tx.declared_changes(target=target, from_us=now_us - settle_us, limit=1000)
    windows = limits_of(declared, "", None).windows
    open_until = (window.until_us(now_us) for window in windows)
    return Answer(
        GuardrailsShown(
            target=target,
            knobs=knobs,
            rails=[
                RailShown(
                    name=rail.name,
                    at=rail.at,
                    binds=sorted(rail.binds),
                    words=(rail.check.__doc__ or "").strip().partition("\n")[0],
                )
                for rail in RAILS
            ],
            freeze_windows=[window.words() for window in windows],
            frozen_until_us=max((at for at in open_until if at is not None), default=None),
            changes=changes,
            settle_s=declared.guardrails.settle_s,
            auto_risk=declared.guardrails.auto_risk,
        )
    )


def _limits(tx: Tx, declared: Declared, spec: KnobSpec) -> LimitsShown:
    found = limits_of(declared, spec.name, spec)
    modes: dict[str, Mode] = tx.modes(declared.name)
    figures = {
        name: float(value)
        for name, value in msgspec.structs.asdict(found).items()
        if name not in NO_FIGURES
    }
    return LimitsShown(
        mode=declared.target.knobs.mode(spec.name, modes.get(spec.name)),
        ladder=list(found.ladder),
        low=spec.low if found.low is None else max(spec.low, found.low),
        high=spec.capacity if found.high is None else min(spec.capacity, found.high),
        safer=found.safer,
        figures=figures,
    )

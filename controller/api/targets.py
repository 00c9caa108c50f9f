"""``/v1/targets``: what each engine has and should have, and the operator's hold, release, kill."""

from __future__ import annotations

from fastapi import APIRouter, Response

from controller.api import target_views
from controller.api.access import Caller, Wired, check_target
from controller.api.answers import Answer
from controller.api.bodies import ModeBody, OneOrAll, WithReason
from controller.api.ports import Services
from controller.api.problems import documented
from controller.keys import covers
from controller.store.port import Principal

router = APIRouter(prefix="/v1", tags=["targets"])

ACT = documented(404, 409, 422)


@router.get("/targets")
def listed(services: Wired, caller: Caller) -> Response:
    """Every target that the key covers: its control, its trial, what it maximises."""
    names = [name for name in services.settings.targets if covers(caller.targets, name)]
    with services.store.read() as tx:
        found = [target_views.line(services, tx, name) for name in names]
    return Answer({"items": found})


@router.get("/targets/{target}", responses=documented(404, 422))
def one(target: str, services: Wired) -> Response:
    """One target at a glance: knobs, trial, latest verdicts, attainment, replicas."""
    return Answer(target_views.glance(services, target, now_us=services.clock()))


@router.get("/targets/{target}/settings", responses=documented(404, 422))
def settings(target: str, services: Wired) -> Response:
    """Baseline, desired and, per replica, observed settings; and in what they differ."""
    return Answer(target_views.settings(services, target, now_us=services.clock()))


@router.get("/targets/{target}/features", responses=documented(404, 422))
def features(target: str, services: Wired) -> Response:
    """The values that rules see now. A feature that is absent is unknown, not zero.

    ``rates`` says of each ``<metric>_rate`` what it is made of: of ``closed_requests``, whose time
    for feedback is over, and what share of it each producer has; ``open_requests`` came later.
    """
    rates = target_views.rates_of(services, target)
    values = target_views.rule_features(services, target, now_us=services.clock(), rates=rates)
    return Answer({"target": target, "features": dict(values), "rates": rates})


@router.post("/targets/{target}/hold", responses=ACT)
def hold(target: str, body: WithReason, services: Wired, caller: Caller) -> Response:
    """Nothing changes any more; laws freeze, the trial pauses, expiries are suspended."""
    return Answer(services.operations.hold(target, body.reason, by=caller))


@router.post("/targets/{target}/release", responses=ACT)
def release(target: str, body: WithReason, services: Wired, caller: Caller) -> Response:
    """End a hold or a kill."""
    return Answer(services.operations.release(target, body.reason, by=caller))


@router.post("/targets/{target}/kill", responses=ACT)
def kill(target: str, body: WithReason, services: Wired, caller: Caller) -> Response:
    """Stop the loop on one target and go to its ``on_kill``."""
    return Answer(services.operations.kill(target, body.reason, by=caller))


@router.post("/hold", responses=ACT)
def hold_all(body: OneOrAll, services: Wired, caller: Caller) -> Response:
    """Hold one target, or every one when none is named."""
    names = _named(body, services, caller)
    return Answer({"items": services.operations.hold_all(names, body.reason, by=caller)})


@router.post("/release", responses=ACT)
def release_all(body: OneOrAll, services: Wired, caller: Caller) -> Response:
    """End the holds and kills of one target, or of every one when none is named."""
    names = _named(body, services, caller)
    return Answer({"items": services.operations.release_all(names, body.reason, by=caller)})


@router.post("/kill", responses=ACT)
def kill_all(body: OneOrAll, services: Wired, caller: Caller) -> Response:
    """Kill one target, or every one when none is named."""
    names = _named(body, services, caller)
    return Answer({"items": services.operations.kill_all(names, body.reason, by=caller)})


def _named(body: OneOrAll, services: Services, caller: Principal) -> list[str]:
    """The targets of an act. Raises ``Denied`` unless the key covers them."""
    check_target(caller, body.target)
    return [body.target] if body.target is not None else list(services.settings.targets)


@router.patch("/targets/{target}/knobs/{knob}", responses=ACT)
def mode(target: str, knob: str, body: ModeBody, services: Wired, caller: Caller) -> Response:
    """Raise or lower what the loop may do with a knob; 409 ``managed_by`` if a file says it."""
    services.operations.set_mode(target, knob, body.mode, by=caller)
    return Answer({"target": target, "knob": knob, "mode": body.mode})

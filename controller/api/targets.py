"""``/v1/targets``: what each engine has and should have, and the operator's hold, release, kill."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from controller.api import target_views
from controller.api.access import Caller, Wired, check_target
from controller.api.answers import Answer
from controller.api.bodies import DetachBody, ModeBody, OneOrAll, RollbackBody, WithReason
from controller.api.past_views import settings_then
from controller.api.ports import Services
from controller.api.problems import documented
from controller.exporting import ExportForm
from controller.history.times import OR_AGO, moment
from controller.keys import covers

router = APIRouter(prefix="/v1", tags=["targets"])

ACT = documented(404, 409, 422)
At = Annotated[str | None, Query(max_length=40, description=OR_AGO)]


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
def settings(
    target: str,
    services: Wired,
    at: At = None,
    intent: Annotated[str | None, Query(description="with at: what its requests get")] = None,
    replica: Annotated[str | None, Query(description="with at: only this one")] = None,
) -> Response:
    """Baseline, desired and, per replica, observed settings; and in what they differ.

    With ``at`` what each replica had then, place by place: who made it so, and the audit entry that
    says it. ``known`` false: nobody can say, from when until when, and why.
    """
    if at is not None:
        return Answer(settings_then(services, target, at, intent=intent, replica=replica))
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


@router.post("/targets/{target}/rollback", responses=ACT)
def rollback(
    target: str,
    body: RollbackBody,
    services: Wired,
    caller: Caller,
    dry_run: Annotated[bool, Query(description="show it, and do nothing")] = False,
) -> Response:
    """Whole settings to last stable or to a time; 409 with the span where that is unknown.

    Passing layers are taken away, newer policies reverted, and what then still differs is pinned
    for a while. A hold does not stop it.
    """
    at_us = (
        None if body.to == "last-stable" else moment(body.to, field="to", now_us=services.clock())
    )
    report = services.operations.rollback(
        target, body.reason, by=caller, at_us=at_us, dry_run=dry_run
    )
    return Answer(report)


@router.post("/targets/{target}/detach", responses=ACT)
def detach(target: str, body: DetachBody, services: Wired, caller: Caller) -> Response:
    """Leave the engine as it stands: nothing is sent to it until it is attached."""
    report = services.operations.detach(target, body.reason, expiries=body.expiries, by=caller)
    return Answer(report)


@router.post("/targets/{target}/attach", responses=ACT)
def attach(target: str, body: WithReason, services: Wired, caller: Caller) -> Response:
    """Let the loop go on; what others changed meanwhile is kept as a pin for a while."""
    return Answer(services.operations.attach(target, body.reason, by=caller))


@router.get("/targets/{target}/settings/export", responses=documented(404, 409, 422, 503))
def export(
    target: str,
    services: Wired,
    form: Annotated[ExportForm, Query(alias="as")] = "json",
    at: Annotated[str | None, Query(description=f"a time; {OR_AGO}")] = None,
) -> Response:
    """Settings with their digest, and as start-up flags of vLLM; 409 where they are unknown."""
    at_us = None if at is None else moment(at, now_us=services.clock())
    found = target_views.exported(services, target, form, at_us, now_us=services.clock())
    return Answer(found)


@router.post("/hold", responses=ACT)
def hold_all(body: OneOrAll, services: Wired, caller: Caller) -> Response:
    """Hold one target, or every one but those detached when none is named."""
    check_target(caller, body.target)
    acts = services.operations
    if body.target is not None:
        return Answer({"items": [acts.hold(body.target, body.reason, by=caller)]})
    return Answer({"items": acts.hold_all(_all(services), body.reason, by=caller)})


@router.post("/release", responses=ACT)
def release_all(body: OneOrAll, services: Wired, caller: Caller) -> Response:
    """End the holds and kills of one target, or of every one when none is named."""
    check_target(caller, body.target)
    acts = services.operations
    if body.target is not None:
        return Answer({"items": [acts.release(body.target, body.reason, by=caller)]})
    return Answer({"items": acts.release_all(_all(services), body.reason, by=caller)})


@router.post("/kill", responses=ACT)
def kill_all(body: OneOrAll, services: Wired, caller: Caller) -> Response:
    """Kill one target, or every one but those detached when none is named."""
    check_target(caller, body.target)
    acts = services.operations
    if body.target is not None:
        return Answer({"items": [acts.kill(body.target, body.reason, by=caller)]})
    return Answer({"items": acts.kill_all(_all(services), body.reason, by=caller)})


def _all(services: Services) -> list[str]:
    return list(services.settings.targets)


@router.patch("/targets/{target}/knobs/{knob}", responses=ACT)
def mode(target: str, knob: str, body: ModeBody, services: Wired, caller: Caller) -> Response:
    """Raise or lower what the loop may do with a knob; 409 ``managed_by`` if a file says it."""
    services.operations.set_mode(target, knob, body.mode, by=caller)
    return Answer({"target": target, "knob": knob, "mode": body.mode})

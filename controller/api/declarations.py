"""What files declare, read-only here: intents; and what was decided."""

from __future__ import annotations

from fastapi import APIRouter, Response

from controller.api.access import Caller, Wired
from controller.api.answers import Answer, Limit, page
from controller.api.bounds import sees
from controller.api.problems import documented
from controller.api.target_views import check_known, declared
from controller.keys import ANY
from controller.store.port import Decision, Tx
from policies.knobs import TARGET_SCOPE

router = APIRouter(prefix="/v1", tags=["declarations"])


@router.get("/intents", responses=documented(404, 422))
def intents(services: Wired, target: str | None = None) -> Response:
    """Every declared intent with its class and service levels."""
    names = [target] if target is not None else list(services.settings.targets)
    found = [
        {"target": name, "name": intent, **settings.model_dump(by_alias=True)}
        for name in names
        for intent, settings in declared(services, name).intents.items()
    ]
    return Answer({"items": found})


@router.get("/decisions", tags=["decisions"], responses=documented(404, 422))
def decisions(
    services: Wired, caller: Caller, target: str | None = None, limit: Limit = 100
) -> Response:
    """What was decided, from which context, with what chance; newest first."""
    with services.store.read() as tx:
        every = tx.decisions(target=target, limit=limit)
        check_known(services, target, every)
        everything = ANY in caller.intents
        found = [one for one in every if everything or sees(caller, _scope_of(tx, one))]
    return Answer(page(found, limit, None))


def _scope_of(tx: Tx, decision: Decision) -> str:
    """Of the policy that came of it; of one that was denied, as its place says."""
    if decision.policy_id is not None:
        return tx.policy(decision.policy_id).scope
    _, _, intent = decision.chosen.partition("=")[0].partition("@")
    return intent or TARGET_SCOPE

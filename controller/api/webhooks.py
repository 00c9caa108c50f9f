"""``/v1/webhooks``: how each receiver stands, what it was sent, a test, and one more try."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from controller.api.access import Caller, Wired
from controller.api.answers import Answer, Limit, page
from controller.api.problems import documented
from controller.store.past_port import DeliveryState
from controller.webhooks import operating
from controller.webhooks.settings import HookName

router = APIRouter(prefix="/v1/webhooks", tags=["webhooks"])

Named = Annotated[HookName, Path(description="a webhook's name, as configured")]
DeliveryId = Annotated[str, Path(max_length=64, description="`<hook>:<entry>`, as listed")]
Before = Annotated[
    int | None, Query(ge=0, le=2**62, description="a page's `next`: only entries below it")
]


@router.get("")
def listed(services: Wired) -> Response:
    """Every configured webhook: how far it is behind, what waits, what was given up."""
    with services.store.read() as tx:
        return Answer({"items": operating.states(tx, services.settings.webhooks)})


@router.get("/{name}/deliveries", responses=documented(404, 422))
def deliveries(
    name: Named,
    services: Wired,
    state: DeliveryState | None = None,
    before: Before = None,
    limit: Limit = 100,
) -> Response:
    """What a webhook was sent, or is owed, newest first; `entry` is the audit's index."""
    with services.store.read() as tx:
        found = operating.deliveries(
            tx, services.settings.webhooks, name, state=state, before=before, limit=limit
        )
    return Answer(page(found, limit, found[-1].entry if found else None))


@router.post("/{name}/test", status_code=202, responses=documented(404, 409, 422))
def tested(name: Named, services: Wired, caller: Caller) -> Response:
    """Send it a `webhook.tested`, whatever it subscribed to. The test is recorded in the audit."""
    operating.test(
        services.store, services.settings.webhooks, name, by=caller, clock=services.clock
    )
    where = {"Location": f"/v1/webhooks/{name}/deliveries"}
    return Answer({"hook": name, "event": "webhook.tested"}, status_code=202, headers=where)


@router.post(
    "/{name}/deliveries/{delivery_id}/redeliver",
    status_code=202,
    responses=documented(404, 409, 422),
)
def redelivered(name: Named, delivery_id: DeliveryId, services: Wired, caller: Caller) -> Response:
    """Send a delivery again, with the same id; 409 while it waits to be sent anyway."""
    again = operating.redeliver(
        services.store,
        services.settings.webhooks,
        name,
        delivery_id,
        by=caller,
        clock=services.clock,
    )
    return Answer(again, status_code=202)

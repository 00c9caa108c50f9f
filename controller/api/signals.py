"""Feedback on its way: what waits for its request, what was asked of the stage, how full the bus.

``/v1/orphans``, ``/v1/commands`` and ``/v1/bus``.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Response

from controller import command_log
from controller.api.access import Caller, Wired
from controller.api.answers import Answer, Limit, page
from controller.api.problems import documented
from controller.inspection import OrphanSeen, Place
from controller.keys import ANY, covers
from signals.errors import NotFound

router = APIRouter(prefix="/v1", tags=["signals"])

After = Annotated[str, Query(description="a page's `next`: only what comes after it")]


@router.get("/orphans", responses=documented(404, 422))
def orphans(
    services: Wired,
    target: str | None = None,
    producer: str | None = None,
    after: After = "0",
    limit: Limit = 100,
) -> Response:
    """Feedback whose request is not known yet, as it came in; ``waiting`` counts it by producer."""
    inspection = services.inspection
    found = inspection.orphans(
        target=target, producer=producer, after=Place.parse(after), limit=limit
    )
    last = Place(found[-1].offset, found[-1].partition) if len(found) == limit else None
    return Answer(
        {
            "items": [_orphan(one) for one in found],
            "next": None if last is None else str(last),
            "waiting": inspection.orphans_by_producer(target=target),
            "orphan_s": services.settings.features.orphan_s,
        }
    )


@router.get("/commands", responses=documented(404, 422))
def commands(
    services: Wired,
    target: str | None = None,
    before: Annotated[str | None, Query(description="older than this id: the next page")] = None,
    limit: Limit = 20,
) -> Response:
    """What was asked about dead letters and producers, newest first, and what became of it."""
    with services.store.read() as tx:
        found = command_log.commands(
            tx,
            services.inspection,
            target=target,
            before=before,
            limit=limit,
            now_us=services.clock(),
        )
    return Answer(page(found, limit, found[-1].id if found else None))


@router.get("/commands/{command_id}", responses=documented(404, 422))
def command(command_id: str, services: Wired, caller: Caller) -> Response:
    """One command, event by event: done, waiting, refused by ingest, or not confirmed."""
    with services.store.read() as tx:
        found = command_log.command(tx, services.inspection, command_id, now_us=services.clock())
    hidden = [one for one in found.events if not covers(caller.targets, one.target)]
    if hidden and ANY not in caller.targets:
        raise NotFound(f"no command {command_id!r}", field="command_id", value=command_id)
    return Answer(found)


@router.get("/bus")
def bus(services: Wired) -> Response:
    """Each partition's ends, how far the feature stage is behind, sizes and the oldest event."""
    settings = services.settings.bus
    partitions = [
        {"partition": partition, "lag": _lag(status), **msgspec.to_builtins(status)}
        for partition, status in services.bus().items()
    ]
    return Answer(
        {
            "kind": settings.kind,
            "partitions": partitions,
            "max_bytes": settings.max_bytes,
            "hard_bytes": settings.hard_bytes,
            "retention_s": settings.retention_s,
        }
    )


def _lag(status: Any) -> dict[str, int | None]:
    return {consumer: status.lag(consumer) for consumer in status.consumers}


def _orphan(one: OrphanSeen) -> dict[str, Any]:
    signal: dict[str, Any] = msgspec.to_builtins(one.signal)
    placed = {"partition": one.partition, "offset": one.offset, "accepted_us": one.accepted_us}
    return placed | signal

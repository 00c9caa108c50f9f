"""``/v1/metric-definitions``: which metrics signals may carry, by version, with their owner."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response

from controller import definitions
from controller.api.access import Caller, Wired
from controller.api.answers import Answer
from controller.api.problems import documented
from signals.definitions import Definition
from signals.errors import NotFound
from signals.settings import MetricSettings, Name

router = APIRouter(prefix="/v1/metric-definitions", tags=["metrics"])

Named = Annotated[Name, Path(description="a metric's name, for ever")]
ACT = documented(404, 409, 422)


@router.get("", responses=documented(422))
def listed(
    services: Wired, name: Annotated[Name | None, Query(description="only this one")] = None
) -> Response:
    """Every metric in force; ingest refuses an undeclared name."""
    with services.store.read() as tx:
        found = [one for one in tx.definitions() if name in (None, one.name)]
    return Answer({"items": [shown(one) for one in found]})


@router.get("/{name}", responses=documented(404, 422))
def versions(name: Named, services: Wired) -> Response:
    """Every version of one metric, oldest first: events are read under the one of their time."""
    with services.store.read() as tx:
        found = tx.versions(name)
    if not found:
        raise NotFound(f"no metric {name} was ever declared", field="name", value=name)
    return Answer({"items": [shown(one) for one in found]})


@router.put("/{name}", responses=ACT)
def declared(name: Named, body: MetricSettings, services: Wired, caller: Caller) -> Response:
    """Declare a metric, or put its next version in force; layer, type and unit are for ever.

    The body is the whole definition: what it leaves out has its default, but for ``owner``, which
    stays, or is the caller's team. 409 ``managed_by`` if a file or the product declares it.
    """
    most = services.settings.serve.max_metrics
    with services.store.write() as tx:
        made = definitions.declare(tx, name, body, by=caller, at_us=services.clock(), most=most)
    return Answer(shown(made))


@router.delete("/{name}", responses=ACT)
def retired(name: Named, services: Wired, caller: Caller) -> Response:
    """Take a metric out of force; its versions stay, and it can be declared again."""
    with services.store.write() as tx:
        ended = definitions.retire(tx, name, by=caller, at_us=services.clock())
    return Answer(shown(ended))


def shown(one: Definition) -> dict[str, Any]:
    """A version, its metric's fields beside its own."""
    return {
        "name": one.name,
        "version": one.version,
        "managed_by": one.managed_by,
        "from_us": one.from_us,
        "retired_us": one.retired_us,
        **one.metric.model_dump(),
    }

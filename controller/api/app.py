"""The control plane's app: routers, the access table, problem documents."""

from __future__ import annotations

from typing import Any

from fastapi import Depends, FastAPI

from controller.api import (
    audit,
    dead_letters,
    declarations,
    features,
    health,
    keys,
    metrics,
    policies,
    problems,
    producers,
    requests,
    signals,
    targets,
    trials,
    webhooks,
)
from controller.api.access import authorize, check_complete
from controller.api.ports import Services

VERSION = "0.1.0"

PROTECTED = tuple(
    room.router
    for room in (
        targets,
        policies,
        trials,
        requests,
        features,
        signals,
        dead_letters,
        producers,
        audit,
        keys,
        declarations,
        metrics,
        webhooks,
    )
)
ROUTERS = (*PROTECTED, health.router)


def make_app(services: Services) -> FastAPI:
    """The app. Raises ``Broken`` when a route is missing from the access table."""
    app = FastAPI(
        title="Trimtab",
        version=VERSION,
        summary="Policies for a running LLM engine: proposed, approved, tried, kept or undone",
        redoc_url=None,
    )
    app.state.services = services
    problems.install(app)
    common = problems.documented(401, 403, 500, 503)
    check_complete(ROUTERS)
    for router in PROTECTED:
        app.include_router(router, dependencies=[Depends(authorize)], responses=common)
    app.include_router(health.router)
    _document_problems(app)
    return app


def _document_problems(app: FastAPI) -> None:
    """Put the problem document into OpenAPI's schemas, where every route refers to it."""
    generated = app.openapi

    def openapi() -> dict[str, Any]:
        schema = generated()
        schema.setdefault("components", {}).setdefault("schemas", {})
        schema["components"]["schemas"]["Problem"] = problems.PROBLEM_SCHEMA
        return schema

    app.openapi = openapi  # type: ignore[method-assign]

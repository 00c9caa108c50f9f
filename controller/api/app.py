"""The control plane's app: routers, the access table, problem documents."""

from __future__ import annotations

from fastapi import Depends, FastAPI

from controller.api import (
    audit,
    baselines,
    changes,
    dead_letters,
    declarations,
    erasures,
    features,
    guardrails,
    health,
    history,
    keys,
    metrics,
    overrides,
    policies,
    problems,
    producers,
    requests,
    rules,
    signals,
    targets,
    trials,
    webhooks,
    worth,
)
from controller.api.access import authorize, check_complete
from controller.api.describing import describe, operation_id
from controller.api.ports import Services
from controller.api.tags import conditions

VERSION = "0.1.0"

PROTECTED = tuple(
    room.router
    for room in (
        targets,
        baselines,
        policies,
        changes,
        guardrails,
        overrides,
        trials,
        requests,
        history,
        worth,
        features,
        signals,
        dead_letters,
        producers,
        audit,
        keys,
        declarations,
        rules,
        metrics,
        webhooks,
        erasures,
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
        generate_unique_id_function=operation_id,
    )
    app.state.services = services
    problems.install(app)
    common = problems.documented(401, 403, 429, 500, 503)
    checks = [Depends(authorize), Depends(conditions)]
    check_complete(ROUTERS)
    for router in PROTECTED:
        app.include_router(router, dependencies=checks, responses=common)
    app.include_router(health.router)
    describe(app)
    return app

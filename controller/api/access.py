"""Who may call what: ONE table. A route that is not in it stops the process at its start.

Roles rise: viewer reads, operator acts, admin issues keys. A producer posts signals to ingest and
has nothing to do here. Finer rules (nobody approves his own proposal) are the operations' own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Request
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from controller.api.ports import Services
from controller.keys import ANY, covers
from controller.store.port import Principal, Role
from signals.errors import Broken, Denied

Route = tuple[str, str]

RANK: Final[dict[Role, int]] = {"producer": 0, "viewer": 1, "operator": 2, "admin": 3}

PUBLIC: Final[frozenset[Route]] = frozenset({("GET", "/healthz"), ("GET", "/readyz")})

BOUNDED_IN_ROUTE: Final[frozenset[Route]] = frozenset(
    {
        ("GET", "/v1/targets"),
        ("GET", "/v1/metric-definitions"),
        ("GET", "/v1/metric-definitions/{name}"),
        ("PUT", "/v1/metric-definitions/{name}"),
        ("DELETE", "/v1/metric-definitions/{name}"),
        ("POST", "/v1/policies"),
        ("POST", "/v1/kill"),
        ("GET", "/v1/bus"),
        ("GET", "/v1/commands/{command_id}"),
        ("GET", "/v1/dead-letters/{letter_id}"),
        ("POST", "/v1/dead-letters/replay"),
        ("POST", "/v1/dead-letters/discard"),
    }
)
"""Routes that look themselves at the targets a key covers, or are about none."""

ACCESS: Final[dict[Route, Role]] = {
    ("GET", "/metrics"): "viewer",
    ("GET", "/v1/targets"): "viewer",
    ("GET", "/v1/targets/{target}"): "viewer",
    ("GET", "/v1/targets/{target}/settings"): "viewer",
    ("GET", "/v1/targets/{target}/features"): "viewer",
    ("POST", "/v1/targets/{target}/hold"): "operator",
    ("POST", "/v1/targets/{target}/release"): "operator",
    ("POST", "/v1/targets/{target}/kill"): "operator",
    ("PATCH", "/v1/targets/{target}/knobs/{knob}"): "operator",
    ("POST", "/v1/kill"): "operator",
    ("GET", "/v1/policies"): "viewer",
    ("POST", "/v1/policies"): "operator",
    ("GET", "/v1/policies/{policy_id}"): "viewer",
    ("POST", "/v1/policies/{policy_id}/approve"): "operator",
    ("POST", "/v1/policies/{policy_id}/reject"): "operator",
    ("POST", "/v1/policies/{policy_id}/revert"): "operator",
    ("POST", "/v1/policies/{policy_id}/pause"): "operator",
    ("POST", "/v1/policies/{policy_id}/resume"): "operator",
    ("GET", "/v1/trials"): "viewer",
    ("GET", "/v1/trials/{trial_id}"): "viewer",
    ("GET", "/v1/trials/{trial_id}/requests"): "viewer",
    ("GET", "/v1/trials/{trial_id}/seconds"): "viewer",
    ("GET", "/v1/requests"): "viewer",
    ("GET", "/v1/requests/{request_id}"): "viewer",
    ("GET", "/v1/decisions"): "viewer",
    ("GET", "/v1/audit"): "viewer",
    ("GET", "/v1/audit/verify"): "viewer",
    ("GET", "/v1/keys"): "admin",
    ("POST", "/v1/keys"): "admin",
    ("DELETE", "/v1/keys/{key_id}"): "admin",
    ("GET", "/v1/features"): "viewer",
    ("GET", "/v1/orphans"): "viewer",
    ("GET", "/v1/bus"): "viewer",
    ("GET", "/v1/commands"): "viewer",
    ("GET", "/v1/commands/{command_id}"): "viewer",
    ("GET", "/v1/dead-letters"): "viewer",
    ("GET", "/v1/dead-letters/{letter_id}"): "viewer",
    ("POST", "/v1/dead-letters/replay"): "operator",
    ("POST", "/v1/dead-letters/discard"): "operator",
    ("GET", "/v1/producers"): "viewer",
    ("POST", "/v1/producers/{producer}/quarantine"): "operator",
    ("POST", "/v1/producers/{producer}/release"): "operator",
    ("GET", "/v1/intents"): "viewer",
    ("GET", "/v1/metric-definitions"): "viewer",
    ("GET", "/v1/metric-definitions/{name}"): "viewer",
    ("PUT", "/v1/metric-definitions/{name}"): "operator",
    ("DELETE", "/v1/metric-definitions/{name}"): "operator",
    ("GET", "/v1/rules"): "viewer",
}

FILTERED: Final[frozenset[Route]] = frozenset(
    {
        ("GET", "/v1/policies"),
        ("GET", "/v1/trials"),
        ("GET", "/v1/requests"),
        ("GET", "/v1/decisions"),
        ("GET", "/v1/intents"),
        ("GET", "/v1/rules"),
        ("GET", "/v1/features"),
        ("GET", "/v1/orphans"),
        ("GET", "/v1/commands"),
        ("GET", "/v1/dead-letters"),
    }
)
"""Routes that answer for one target when ``?target=`` names it. Elsewhere it means nothing."""

bearer = HTTPBearer(auto_error=False, description="a key from `trimtab keys create`")
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]


def services_of(request: Request) -> Services:
    """What the app was made with."""
    found: Services = request.app.state.services
    return found


def authorize(request: Request, credentials: Credentials) -> Principal:
    """The caller, when the table lets him call this route. Raises ``Denied``: 401 or 403."""
    route = (request.method, request.scope["route"].path)
    needed = ACCESS[route]
    services = services_of(request)
    if credentials is None:
        raise Denied("a bearer key is required", authenticated=False)
    principal = services.authenticator.lookup(credentials.credentials)
    if RANK[principal.role] < RANK[needed]:
        raise Denied(f"{principal.name} is {principal.role}; {' '.join(route)} needs {needed}")
    if ANY not in principal.targets and route not in BOUNDED_IN_ROUTE:
        check_target(principal, _target_of(request, services, route))
    return principal


def check_target(principal: Principal, target: str | None) -> None:
    """Raise ``Denied`` unless the key covers this target; None means all of them."""
    if not covers(principal.targets, ANY if target is None else target):
        raise Denied(
            f"the key of {principal.name} covers {', '.join(principal.targets) or 'no target'},"
            f" not {target or 'all targets: name one with ?target='}"
        )


def _target_of(request: Request, services: Services, route: Route) -> str | None:
    """The target that a call is about; None when it is about all of them."""
    named = request.path_params
    if "policy_id" in named:
        with services.store.read() as tx:
            return tx.policy(named["policy_id"]).target
    if "trial_id" in named:
        with services.store.read() as tx:
            return tx.trial(named["trial_id"]).plan.target
    if "request_id" in named:
        return str(named["request_id"]).partition(".")[0]
    if route in FILTERED:
        return request.query_params.get("target")
    return named.get("target")


Caller = Annotated[Principal, Depends(authorize)]
Wired = Annotated[Services, Depends(services_of)]


def routes_of(routers: Iterable[APIRouter]) -> Iterator[Route]:
    """Each (method, path) that the routers answer."""
    for router in routers:
        for route in router.routes:
            if isinstance(route, APIRoute):
                yield from ((method, route.path) for method in sorted(route.methods or ()))


def check_complete(routers: Iterable[APIRouter]) -> None:
    """Raise ``Broken`` unless table and routes are the same set."""
    differ = set(routes_of(routers)) ^ (set(ACCESS) | PUBLIC)
    if differ:
        raise Broken(f"routes and access table differ in {sorted(differ)}")

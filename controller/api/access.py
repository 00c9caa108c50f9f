"""Who may call what: ONE table. A route that is not in it stops the process at its start.

A route needs a capability, and a role has some of them (``CAPABILITIES``). Then the key's bounds
count: its targets, and its intents (``controller.api.bounds``). Finer rules (nobody approves his
own proposal) are the operations' own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Depends, Request
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from controller.api.bounds import Subject, check_scope, check_sight, check_target, subject_in
from controller.api.ports import Services
from controller.keys import ANY
from controller.store.port import Principal, Role
from policies.knobs import TARGET_SCOPE
from signals.errors import Broken, Denied

__all__ = [
    "ACCESS",
    "CAPABILITIES",
    "PUBLIC",
    "Caller",
    "Capability",
    "Route",
    "Wired",
    "authorize",
    "check_complete",
    "check_scope",
    "check_target",
    "roles_of",
    "routes_of",
    "services_of",
]

Route = tuple[str, str]

Capability = Literal["read", "act", "approve", "audit", "administer"]

CAPABILITIES: Final[dict[Capability, frozenset[Role]]] = {
    "read": frozenset({"viewer", "operator", "approver", "auditor", "admin"}),
    "act": frozenset({"operator", "admin"}),
    "approve": frozenset({"operator", "approver", "admin"}),
    "audit": frozenset({"auditor", "admin"}),
    "administer": frozenset({"admin"}),
}
"""Which roles have a capability. A producer posts signals to ingest and has nothing to do here."""

READING: Final[frozenset[Capability]] = frozenset({"read", "audit"})
"""Capabilities that change nothing."""

PUBLIC: Final[frozenset[Route]] = frozenset({("GET", "/healthz"), ("GET", "/readyz")})

BOUNDED_IN_ROUTE: Final[frozenset[Route]] = frozenset(
    {
        ("GET", "/v1/targets"),
        ("GET", "/v1/metric-definitions"),
        ("GET", "/v1/metric-definitions/{name}"),
        ("PUT", "/v1/metric-definitions/{name}"),
        ("DELETE", "/v1/metric-definitions/{name}"),
        ("POST", "/v1/policies"),
        ("POST", "/v1/changes"),
        ("POST", "/v1/guardrails/evaluate"),
        ("POST", "/v1/rules/test"),
        ("POST", "/v1/overrides"),
        ("POST", "/v1/hold"),
        ("POST", "/v1/release"),
        ("POST", "/v1/kill"),
        ("GET", "/v1/bus"),
        ("GET", "/v1/commands/{command_id}"),
        ("GET", "/v1/dead-letters/{letter_id}"),
        ("POST", "/v1/dead-letters/replay"),
        ("POST", "/v1/dead-letters/discard"),
        ("POST", "/v1/erasures"),
    }
)
"""Routes that look themselves at the targets a key covers, or are about none."""

ACCESS: Final[dict[Route, Capability]] = {
    ("GET", "/metrics"): "read",
    ("GET", "/v1/targets"): "read",
    ("GET", "/v1/targets/{target}"): "read",
    ("GET", "/v1/targets/{target}/settings"): "read",
    ("GET", "/v1/targets/{target}/settings/diff"): "read",
    ("GET", "/v1/targets/{target}/timeline"): "read",
    ("GET", "/v1/targets/{target}/worth"): "read",
    ("GET", "/v1/targets/{target}/features"): "read",
    ("POST", "/v1/targets/{target}/hold"): "act",
    ("POST", "/v1/targets/{target}/release"): "act",
    ("POST", "/v1/targets/{target}/kill"): "act",
    ("POST", "/v1/targets/{target}/rollback"): "act",
    ("POST", "/v1/targets/{target}/detach"): "act",
    ("POST", "/v1/targets/{target}/attach"): "act",
    ("GET", "/v1/targets/{target}/settings/export"): "read",
    ("GET", "/v1/targets/{target}/baseline"): "read",
    ("PUT", "/v1/targets/{target}/baseline"): "act",
    ("PATCH", "/v1/targets/{target}/knobs/{knob}"): "act",
    ("GET", "/v1/overrides"): "read",
    ("POST", "/v1/overrides"): "act",
    ("GET", "/v1/overrides/{override_id}"): "read",
    ("DELETE", "/v1/overrides/{override_id}"): "act",
    ("POST", "/v1/hold"): "act",
    ("POST", "/v1/release"): "act",
    ("POST", "/v1/kill"): "act",
    ("GET", "/v1/policies"): "read",
    ("POST", "/v1/policies"): "act",
    ("GET", "/v1/policies/{policy_id}"): "read",
    ("POST", "/v1/policies/{policy_id}/approve"): "approve",
    ("POST", "/v1/policies/{policy_id}/reject"): "approve",
    ("POST", "/v1/policies/{policy_id}/revert"): "act",
    ("POST", "/v1/policies/{policy_id}/pause"): "act",
    ("POST", "/v1/policies/{policy_id}/resume"): "act",
    ("GET", "/v1/changes"): "read",
    ("POST", "/v1/changes"): "act",
    ("GET", "/v1/changes/{change_id}"): "read",
    ("POST", "/v1/changes/{change_id}/end"): "act",
    ("POST", "/v1/guardrails/evaluate"): "read",
    ("GET", "/v1/targets/{target}/guardrails"): "read",
    ("GET", "/v1/trials"): "read",
    ("GET", "/v1/trials/{trial_id}"): "read",
    ("GET", "/v1/trials/{trial_id}/requests"): "read",
    ("GET", "/v1/trials/{trial_id}/seconds"): "read",
    ("GET", "/v1/requests"): "read",
    ("GET", "/v1/requests/{request_id}"): "read",
    ("GET", "/v1/decisions"): "read",
    ("GET", "/v1/history"): "read",
    ("GET", "/v1/reports/control"): "audit",
    ("GET", "/v1/audit"): "audit",
    ("GET", "/v1/audit/head"): "read",
    ("GET", "/v1/audit/proof"): "audit",
    ("GET", "/v1/audit/consistency"): "audit",
    ("GET", "/v1/audit/verify"): "read",
    ("POST", "/v1/audit/seal"): "administer",
    ("POST", "/v1/audit/rotate-key"): "administer",
    ("POST", "/v1/audit/restored"): "administer",
    ("GET", "/v1/keys"): "audit",
    ("POST", "/v1/keys"): "administer",
    ("POST", "/v1/keys/{key_id}/rotate"): "administer",
    ("DELETE", "/v1/keys/{key_id}"): "administer",
    ("GET", "/v1/features"): "read",
    ("GET", "/v1/orphans"): "read",
    ("GET", "/v1/bus"): "read",
    ("GET", "/v1/commands"): "read",
    ("GET", "/v1/commands/{command_id}"): "read",
    ("GET", "/v1/dead-letters"): "read",
    ("GET", "/v1/dead-letters/{letter_id}"): "read",
    ("POST", "/v1/dead-letters/replay"): "act",
    ("POST", "/v1/dead-letters/discard"): "act",
    ("GET", "/v1/producers"): "read",
    ("POST", "/v1/producers/{producer}/quarantine"): "act",
    ("POST", "/v1/producers/{producer}/release"): "act",
    ("GET", "/v1/intents"): "read",
    ("GET", "/v1/metric-definitions"): "read",
    ("GET", "/v1/metric-definitions/{name}"): "read",
    ("PUT", "/v1/metric-definitions/{name}"): "act",
    ("DELETE", "/v1/metric-definitions/{name}"): "act",
    ("GET", "/v1/rules"): "read",
    ("POST", "/v1/rules/test"): "read",
    ("POST", "/v1/erasures"): "administer",
    ("GET", "/v1/webhooks"): "read",
    ("GET", "/v1/webhooks/{name}/deliveries"): "read",
    ("POST", "/v1/webhooks/{name}/test"): "act",
    ("POST", "/v1/webhooks/{name}/deliveries/{delivery_id}/redeliver"): "act",
}

FILTERED: Final[frozenset[Route]] = frozenset(
    {
        ("GET", "/v1/policies"),
        ("GET", "/v1/overrides"),
        ("GET", "/v1/changes"),
        ("GET", "/v1/trials"),
        ("GET", "/v1/requests"),
        ("GET", "/v1/decisions"),
        ("GET", "/v1/history"),
        ("GET", "/v1/reports/control"),
        ("GET", "/v1/intents"),
        ("GET", "/v1/rules"),
        ("GET", "/v1/features"),
        ("GET", "/v1/orphans"),
        ("GET", "/v1/commands"),
        ("GET", "/v1/dead-letters"),
    }
)
"""Routes that answer for one target when ``?target=`` names it. Elsewhere it means nothing."""

BY_INTENT: Final[frozenset[Route]] = frozenset({("GET", "/v1/requests"), ("GET", "/v1/features")})
"""Routes that list rows of one intent when ``?intent=`` names it."""

SCOPED_IN_ROUTE: Final[frozenset[Route]] = frozenset(
    {("POST", "/v1/policies"), ("POST", "/v1/overrides")}
)
"""Acts whose body names the scope: the route calls ``check_scope``. Others concern everybody."""

bearer = HTTPBearer(auto_error=False, description="a key from `trimtab keys create`")
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]


def services_of(request: Request) -> Services:
    """What the app was made with."""
    found: Services = request.app.state.services
    return found


def roles_of(route: Route) -> frozenset[Role]:
    """The roles that may call a route, within their bounds."""
    return CAPABILITIES[ACCESS[route]]


def authorize(request: Request, credentials: Credentials) -> Principal:
    """The caller, when the table lets him call this route. Raises ``Denied``: 401 or 403."""
    route = (request.method, request.scope["route"].path)
    services = services_of(request)
    if credentials is None:
        raise Denied("a bearer key is required", authenticated=False)
    principal = services.authenticator.lookup(credentials.credentials)
    if principal.role not in roles_of(route):
        raise Denied(
            f"{principal.name} is {principal.role}; {' '.join(route)} needs"
            f" {' or '.join(sorted(roles_of(route)))}"
        )
    if ANY not in principal.targets or ANY not in principal.intents:
        _check_bounds(principal, request, services, route)
    return principal


def _check_bounds(principal: Principal, request: Request, services: Services, route: Route) -> None:
    subject = _subject(request, services, route)
    if route not in BOUNDED_IN_ROUTE:
        check_target(principal, subject.target)
    if ANY in principal.intents:
        return
    if ACCESS[route] in READING:
        if subject.scope is not None or route in BY_INTENT:
            check_sight(principal, subject.scope)
    elif route not in SCOPED_IN_ROUTE:
        everything = subject.target is None and route not in BOUNDED_IN_ROUTE
        check_scope(principal, subject.scope or (ANY if everything else TARGET_SCOPE))


def _subject(request: Request, services: Services, route: Route) -> Subject:
    """What a call is about, by its path and query."""
    named = request.path_params
    with services.store.read() as tx:
        found = subject_in(tx, named)
    if found is not None:
        return found
    if "request_id" in named:
        row = services.features.request(named["request_id"])
        target = str(named["request_id"]).partition(".")[0]
        return Subject(target, None if row is None else row.intent)
    if route in FILTERED:
        query = request.query_params
        return Subject(query.get("target"), query.get("intent"))
    return Subject(named.get("target"))


Caller = Annotated[Principal, Depends(authorize)]
Wired = Annotated[Services, Depends(services_of)]


def routes_of(routers: Iterable[APIRouter]) -> Iterator[Route]:
    """Each (method, path) that the routers answer."""
    for router in routers:
        for route in router.routes:
            if isinstance(route, APIRoute):
                yield from ((method, route.path) for method in sorted(route.methods or ()))


def check_complete(routers: Iterable[APIRouter]) -> None:
    """Raise ``Broken`` unless table and routes are the same set, by known capabilities."""
    strange = {route: needed for route, needed in ACCESS.items() if needed not in CAPABILITIES}
    if strange:
        raise Broken(f"no such capability: {strange}; there are {', '.join(CAPABILITIES)}")
    differ = set(routes_of(routers)) ^ (set(ACCESS) | PUBLIC)
    if differ:
        raise Broken(f"routes and access table differ in {sorted(differ)}")

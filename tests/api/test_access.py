"""Who may call what: the whole table, route by route and role by role."""

from __future__ import annotations

import pytest
from fastapi import APIRouter

from controller.api.access import ACCESS, CAPABILITIES, PUBLIC, check_complete
from controller.api.app import ROUTERS
from controller.store.port import ROLES, Role
from signals.errors import Broken
from tests.api.plane import Plane

NAMES = {
    "target": "chat",
    "knob": "active_cap",
    "policy_id": "pol_none",
    "trial_id": "tri_none",
    "request_id": "chat.none",
    "key_id": "key_none",
    "letter_id": "0-1",
    "command_id": "cmd_none",
    "producer": "shop",
    "name": "none",
}


@pytest.mark.parametrize("role", ROLES)
def test_each_role_may_call_what_the_table_says_and_nothing_else(calm: Plane, role: Role) -> None:
    for (method, path), needed in ACCESS.items():
        answer = calm.call(role, method, path.format(**NAMES))
        denied = role not in CAPABILITIES[needed]
        assert (answer.status == 403) == denied, f"{role}: {method} {path} {answer.status}"
        assert answer.status != 401


def test_a_producer_may_call_nothing_here(calm: Plane) -> None:
    answers = {
        calm.call("producer", method, path.format(**NAMES)).status for method, path in ACCESS
    }
    assert answers == {403}


def test_nothing_is_answered_without_a_key(calm: Plane) -> None:
    for method, path in ACCESS:
        answer = calm.http.request(method, path.format(**NAMES))
        assert answer.status_code == 401, f"{method} {path}"
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.headers["content-type"] == "application/problem+json"


def test_public_routes_need_no_key(calm: Plane) -> None:
    assert {calm.http.request(*route).status_code for route in PUBLIC} == {200}


def test_the_described_routes_are_those_of_the_table(calm: Plane) -> None:
    paths = calm.http.get("/openapi.json").json()["paths"]
    described = {(method.upper(), path) for path, found in paths.items() for method in found}
    assert described == set(ACCESS) | PUBLIC


def test_a_route_beside_the_table_stops_the_process_at_its_start() -> None:
    extra = APIRouter()
    extra.add_api_route("/v1/back-door", lambda: None, methods=["POST"])
    with pytest.raises(Broken, match="back-door"):
        check_complete((*ROUTERS, extra))


@pytest.mark.parametrize("token", ["guess", "tt_" + "0" * 32 + "_guess", "x" * 10_000])
def test_an_unknown_key_is_refused(calm: Plane, token: str) -> None:
    assert calm.call(token, "GET", "/v1/policies").status == 401


def test_an_expired_key_is_refused(plane: Plane) -> None:
    token = plane.key("late", "viewer", expires_us=1_000_000)
    assert plane.call(token, "GET", "/v1/policies").status == 401


def test_a_key_bounded_to_other_targets_sees_and_does_nothing_here(plane: Plane) -> None:
    made = plane.proposed()
    token = plane.key("stranger", "operator", targets=("search",))
    calls = [
        ("GET", "/v1/targets/chat"),
        ("GET", f"/v1/policies/{made['id']}"),
        ("GET", "/v1/policies?target=chat"),
        ("GET", "/v1/policies"),
        ("GET", "/v1/requests/chat.none"),
        ("GET", "/v1/audit"),
        ("POST", f"/v1/policies/{made['id']}/resume"),
    ]
    assert {plane.call(token, *call).status for call in calls} == {403}
    assert plane.call(token, "POST", "/v1/kill", {"reason": "x"}).status == 403
    assert plane.call(token, "GET", "/v1/targets").body == {"items": []}
    assert plane.proposed(4, who=token).status == 403


def test_a_key_bounded_to_this_target_may_use_it(plane: Plane) -> None:
    token = plane.key("local", "operator", targets=("chat",))
    assert plane.call(token, "GET", "/v1/targets/chat").status == 200
    assert plane.call(token, "GET", "/v1/policies?target=chat").status == 200
    assert len(plane.call(token, "GET", "/v1/targets")["items"]) == 1
    assert plane.proposed(4, who=token).status == 201


def test_a_key_bounded_to_a_target_does_not_escape_by_naming_it_where_it_means_nothing(
    plane: Plane,
) -> None:
    token = plane.key("local", "admin", targets=("chat",))
    everything = {"name": "mallory", "role": "admin", "targets": ["*"]}
    assert plane.call(token, "POST", "/v1/keys?target=chat", everything).status == 403
    for path in ("/v1/keys", "/v1/audit", "/v1/audit/verify", "/v1/producers", "/metrics"):
        assert plane.call(token, "GET", f"{path}?target=chat").status == 403, path
    assert plane.call(token, "GET", "/v1/policies?target=chat").status == 200

"""Who may call what: the whole table, route by route and role by role."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi import APIRouter

from controller.api.access import PUBLIC, check_complete
from controller.api.answering import ANSWERS
from controller.api.app import ROUTERS
from controller.api.examples import EXAMPLES
from controller.store.port import ROLES, Role
from policies.overrides import Override
from signals.errors import Broken
from tests.api.plane import Plane
from tests.api.records import known
from tests.api.role_table import LETTERS, TABLE
from tests.store.samples import a_decision, a_trial, stored_in

NOWHERE = {
    "request_id": "chat.none",
    "letter_id": "0-1",
    "command_id": "cmd_none",
    "delivery_id": "hook:1",
    "name": "none",
}
"""Ids of what is not there: a stranger is told so, as anybody."""
ROUTES = [tuple(route.split(" ")) for route in TABLE]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Plane, dict[str, str]]]:
    """A control plane, and by parameter's name the id of something that is there."""
    made = Plane(tmp_path_factory.mktemp("roles"))
    made.world.run(1)
    names = {name: str(values[0]) for name, values in known(made).items()}
    yield made, names | NOWHERE
    made.close()


def test_the_table_has_every_route_and_no_other(calm: Plane) -> None:
    paths = calm.app.openapi()["paths"]
    served = {f"{method.upper()} {path}" for path, found in paths.items() for method in found}
    assert served == set(TABLE) | {" ".join(route) for route in PUBLIC}


@pytest.mark.parametrize("role", ROLES)
def test_each_role_may_call_what_the_table_says_and_nothing_else(
    world: tuple[Plane, dict[str, str]], role: Role
) -> None:
    plane, names = world
    for (method, path), (roles, _) in zip(ROUTES, map(str.split, TABLE.values()), strict=True):
        answer = plane.call(role, method, path.format(**names))
        allowed = LETTERS[role] in roles
        assert (answer.status != 403) == allowed, f"{role}: {method} {path} {answer.status}"
        assert answer.status != 401


@pytest.mark.parametrize(
    ("letter", "targets", "intents"),
    [("t", ("search",), ("*",)), ("i", ("chat",), ("batch",))],
)
def test_a_key_for_another_target_or_intent_is_refused_what_the_table_says(
    world: tuple[Plane, dict[str, str]],
    letter: str,
    targets: tuple[str, ...],
    intents: tuple[str, ...],
) -> None:
    plane, names = world
    token = plane.key(f"bounded_{letter}", "admin", targets=targets, intents=intents)
    for (method, path), (_, bounded) in zip(ROUTES, map(str.split, TABLE.values()), strict=True):
        query = "?target=chat" if letter == "i" and method == "GET" else ""
        body = EXAMPLES.get((method, path))
        answer = plane.call(token, method, path.format(**names) + query, body)
        refused = answer.status == 403
        assert refused == (letter in bounded), f"{letter}: {method} {path} {answer.status}"


def test_nothing_is_answered_without_a_key(calm: Plane) -> None:
    for method, path in ROUTES:
        answer = calm.http.request(method, path)
        assert answer.status_code == 401, f"{method} {path}"
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.headers["content-type"] == "application/problem+json"


def test_public_routes_need_no_key(calm: Plane) -> None:
    assert {calm.http.request(*route).status_code for route in PUBLIC} == {200}


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


def test_a_key_for_an_intent_acts_on_its_scope_and_on_nothing_else(plane: Plane) -> None:
    token = plane.key("eva", "operator", targets=("chat",), intents=("live",))
    with plane.world.store.write() as tx:
        for number, scope in enumerate(("live", "batch", "target")):
            tx.add_override(
                Override(
                    id=f"frz_{number}",
                    target="chat",
                    kind="freeze",
                    knob=None,
                    scope=scope,
                    reason="a test",
                    by="test",
                    created_us=plane.world.clock_us(),
                    expires_us=plane.world.clock_us() + 10**9,
                )
            )
    seen = plane.call(token, "GET", "/v1/overrides?target=chat")["items"]
    assert {one["scope"] for one in seen} == {"live", "target"}
    read = [plane.call(token, "GET", f"/v1/overrides/frz_{n}").status for n in range(3)]
    assert read == [200, 403, 200]
    body = {"reason": "a test"}
    ended = [plane.call(token, "DELETE", f"/v1/overrides/frz_{n}", body).status for n in range(3)]
    assert ended == [200, 403, 403]
    assert plane.proposed(who=token).status == 403
    assert plane.call(token, "POST", "/v1/targets/chat/kill", body).status == 403
    assert plane.call(token, "GET", "/v1/requests?target=chat").status == 403
    assert plane.call(token, "GET", "/v1/requests?target=chat&intent=live").status == 200
    assert plane.call(token, "GET", "/v1/requests?target=chat&intent=batch").status == 403


def test_a_key_for_an_intent_sees_no_trial_and_no_decision_of_another(plane: Plane) -> None:
    token = plane.key("eva", "viewer", intents=("live",))
    store, places = plane.world.store, ("active_cap@live", "active_cap@batch", "active_cap")
    policies = [stored_in(store, "pending", scope=s) for s in ("live", "batch", "target")]
    with store.write() as tx:
        for policy in policies:
            tx.save_trial(a_trial(policy))
            tx.add_decision(a_decision(id=f"dec_{policy.scope}", policy_id=policy.id))
        for number, place in enumerate(places):
            tx.add_decision(a_decision(id=f"dec_{number}", chosen=f"{place}=4", policy_id=None))
    trials = plane.call(token, "GET", "/v1/trials")["items"]
    assert {one["policy_id"] for one in trials} == {policies[0].id, policies[2].id}
    assert len(plane.get("/v1/trials")["items"]) == 3
    seen = {one["id"] for one in plane.call(token, "GET", "/v1/decisions")["items"]}
    assert seen == {"dec_live", "dec_target", "dec_0", "dec_2"}
    assert len(plane.get("/v1/decisions")["items"]) == 6


def test_a_key_for_some_intents_takes_no_audit_out_and_gives_out_no_keys(plane: Plane) -> None:
    auditor = plane.key("ida", "auditor", intents=("live",))
    for path in ("/v1/audit", "/v1/history", "/v1/reports/control"):
        assert plane.call(auditor, "GET", path).status == 403, path
    everything = {"name": "mallory", "role": "admin"}
    for intents in (("live",), ("target",), ("live", "target")):
        admin = plane.key("-".join(intents), "admin", intents=intents)
        assert plane.call(admin, "POST", "/v1/keys", everything).status == 403, intents
        assert plane.call(admin, "POST", "/v1/audit/seal", {"entries": 1}).status == 403
        held = plane.call(admin, "POST", "/v1/targets/chat/hold", {"reason": "a test"}).status
        assert held == (200 if "target" in intents else 403)


def test_every_route_says_what_it_answers_and_every_body_has_an_example(calm: Plane) -> None:
    document = calm.app.openapi()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            route = (method.upper(), path)
            assert route in ANSWERS, f"{route} is missing from controller/api/answering.py"
            assert ("requestBody" in operation) == (route in EXAMPLES), route
            assert "default" not in operation["responses"], route
            assert not any("X" in code for code in operation["responses"]), route
    names = [one["operationId"] for found in document["paths"].values() for one in found.values()]
    assert len(names) == len(set(names))


def test_every_example_is_taken_for_what_it_is(calm: Plane) -> None:
    for (method, path), body in EXAMPLES.items():
        answer = calm.call("viewer", method, path, body)
        assert answer.status in (200, 403), f"{method} {path}: {answer.body}"

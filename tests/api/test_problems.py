"""Errors: each one an RFC 9457 document that names the field, its value and what was allowed."""

from __future__ import annotations

from typing import Any

import pytest

from controller.api.access import ACCESS, PUBLIC
from signals.errors import Broken, Unavailable
from tests.api.plane import Plane

PROPOSAL = {
    "target": "chat",
    "knob": "active_cap",
    "setting": {"value": 16},
    "reason": "a test",
}


@pytest.mark.parametrize(
    ("changes", "status", "field", "allowed"),
    [
        ({"target": "search"}, 404, "target", ["chat"]),
        ({"target": "Bad Name"}, 422, "target", "pattern ^[a-z][a-z0-9_]{0,62}$"),
        ({"knob": "speed"}, 422, "knob", ["active_cap", "step_token_budget"]),
        ({"setting": {"value": 65}}, 422, "value", "1..64 sequences"),
        ({"setting": {"value": "many"}}, 422, "setting.value", None),
        ({"setting": {}}, 422, "setting", "exactly one of the two"),
        ({"reason": ""}, 422, "reason", "min_length 1"),
        ({"reasn": "x"}, 422, "reasn", None),
    ],
)
def test_a_bad_proposal_is_refused(
    calm: Plane, changes: dict[str, Any], status: int, field: str, allowed: object
) -> None:
    refused = calm.post("/v1/policies", PROPOSAL | changes)
    assert (refused.status, refused["status"], refused["field"]) == (status, status, field)
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.body.get("allowed") == allowed


def test_every_problem_of_a_body_is_listed(calm: Plane) -> None:
    refused = calm.post("/v1/policies", {"target": "chat", "extra": 1})
    fields = {error["field"] for error in refused["errors"]}
    assert fields == {"knob", "setting", "reason", "extra"}


REFUSED = [
    ("GET", "/v1/policies/pol_none", 404),
    ("GET", "/v1/trials/tri_none", 404),
    ("GET", "/v1/trials/tri_none/requests", 404),
    ("GET", "/v1/requests/chat.none", 404),
    ("GET", "/v1/targets/search", 404),
    ("GET", "/v1/targets/search/settings", 404),
    ("GET", "/v1/targets/search/features", 404),
    ("GET", "/v1/intents?target=search", 404),
    ("GET", "/v1/nothing", 404),
    ("DELETE", "/v1/policies", 405),
    ("GET", "/v1/policies?limit=0", 422),
    ("GET", "/v1/policies?state=happy", 422),
    ("GET", "/v1/requests", 422),
    ("GET", "/v1/audit?after=-2", 422),
]


def test_every_refusal_is_a_problem_document(calm: Plane) -> None:
    for method, path, status in REFUSED:
        refused = calm.call("admin", method, path)
        assert (refused.status, refused["status"]) == (status, status), f"{method} {path}"
        assert refused.headers["content-type"] == "application/problem+json"
        assert refused["title"] and refused["detail"]


def test_a_body_that_is_not_json_is_refused(calm: Plane) -> None:
    bearer = {"Authorization": f"Bearer {calm.tokens['operator']}"}
    answer = calm.http.post("/v1/policies", content=b"{", headers=bearer)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"


class Away:
    """A store that does not answer, or does not hold what it must."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def read(self) -> Any:
        raise self.error


@pytest.mark.parametrize(
    ("error", "status"), [(Unavailable("the store is away"), 503), (Broken("a hole"), 500)]
)
def test_what_is_not_the_callers_fault_says_so(
    calm: Plane, error: Exception, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert calm.get("/v1/decisions").status == 200
    monkeypatch.setattr(calm.world.store, "read", Away(error).read)
    answer = calm.get("/v1/decisions")
    assert (answer.status, answer["status"]) == (status, status)
    assert ("retry-after" in answer.headers) == (status == 503)


def test_a_loop_that_stands_still_is_not_ready(
    calm: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert calm.http.get("/readyz").status_code == 200
    monkeypatch.setattr(calm.loop, "why_not", "the loop of chat stands still")
    answer = calm.http.get("/readyz")
    assert answer.status_code == 503
    assert "stands still" in answer.json()["detail"]


def test_every_route_describes_its_problems(calm: Plane) -> None:
    paths = calm.http.get("/openapi.json").json()["paths"]
    for method, path in ACCESS:
        codes = set(paths[path][method.lower()]["responses"])
        assert {"401", "403", "429", "503"} <= codes, f"{method} {path}: {codes}"
        if "{" in path:
            assert {"404", "422"} <= codes, f"{method} {path}: {codes}"
        if method != "GET":
            assert {"409", "413", "422"} <= codes, f"{method} {path}: {codes}"
    assert all(path in paths for _, path in PUBLIC)

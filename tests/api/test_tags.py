"""``ETag``, ``If-None-Match``, ``If-Match``: nobody acts on what he has not seen."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.api.plane import Plane

REASON = {"reason": "a test"}
METRIC = "/v1/metric-definitions/copied"


def tag(plane: Plane, path: str) -> str:
    found = plane.get(path)
    assert found.status == 200, found.body
    return found.headers["etag"]


def test_who_has_it_already_gets_304_and_no_body(plane: Plane) -> None:
    path = f"/v1/policies/{plane.proposed()['id']}"
    known = tag(plane, path)
    again = plane.call("viewer", "GET", path, if_none_match=known)
    assert (again.status, again.body, again.headers["etag"]) == (304, "", known)
    assert plane.call("viewer", "GET", path, if_none_match='"0.0", ' + known).status == 304
    assert plane.call("viewer", "GET", path, if_none_match='"0.0"').status == 200
    plane.post(f"{path}/reject", REASON)
    assert plane.call("viewer", "GET", path, if_none_match=known).status == 200


def test_an_act_on_what_has_changed_is_412_and_changes_nothing(plane: Plane) -> None:
    path = f"/v1/policies/{plane.proposed()['id']}"
    seen = tag(plane, path)
    assert plane.call("operator", "POST", f"{path}/reject", REASON, if_match=seen).status == 200
    before = plane.get(path)
    refused = plane.call("operator", "POST", f"{path}/revert", REASON, if_match=seen)
    assert (refused.status, refused["field"]) == (412, "If-Match")
    assert plane.get(path).body == before.body


def test_an_act_on_what_was_seen_is_carried_out(plane: Plane) -> None:
    path = f"/v1/policies/{plane.proposed()['id']}"
    body = {"shown_digest": "0" * 16}
    for expected in ("*", tag(plane, path), f'"999", {tag(plane, path)}'):
        answer = plane.call("other", "POST", f"{path}/approve", body, if_match=expected)
        assert answer.status == 409, "it looked at the digest, so the tag was right"
    refused = plane.call("other", "POST", f"{path}/approve", body, if_match="no tag")
    assert (refused.status, refused["field"]) == (422, "If-Match")


def test_of_many_acts_on_the_same_state_one_is_carried_out(plane: Plane) -> None:
    path = f"/v1/policies/{plane.proposed()['id']}"
    seen = tag(plane, path)

    def act(number: int) -> int:
        what = "reject" if number % 2 else "revert"
        return plane.call("operator", "POST", f"{path}/{what}", REASON, if_match=seen).status

    with ThreadPoolExecutor(8) as pool:
        answers = sorted(pool.map(act, range(16)))
    assert answers.count(200) == 1
    assert set(answers) <= {200, 409, 412}


def test_metrics_have_tags_and_keep_to_them(plane: Plane) -> None:
    body = {"type": "boolean", "attribution_s": 60}
    plane.call("admin", "PUT", METRIC, body)
    seen = tag(plane, METRIC)
    changed = body | {"attribution_s": 120}
    assert plane.call("admin", "PUT", METRIC, changed, if_match=seen).status == 200
    assert plane.call("admin", "PUT", METRIC, body, if_match=seen).status == 412
    assert plane.call("admin", "DELETE", METRIC, if_match=seen).status == 412
    assert plane.call("admin", "DELETE", METRIC, if_match=tag(plane, METRIC)).status == 200


def test_a_targets_tag_moves_with_what_was_said_of_it(plane: Plane) -> None:
    path = "/v1/targets/chat/settings"
    seen = tag(plane, path).partition(".")[0]
    assert tag(plane, path).partition(".")[0] == seen
    plane.post("/v1/targets/chat/hold", REASON)
    assert tag(plane, path).partition(".")[0] != seen
    refused = plane.call(
        "operator", "POST", "/v1/targets/chat/release", REASON, if_match=f'{seen}.0"'
    )
    assert refused.status == 412


@pytest.mark.parametrize("path", ["/v1/targets/chat/hold", "/v1/targets/chat/kill", "/v1/kill"])
def test_hold_and_kill_never_fail_for_a_tag(plane: Plane, path: str) -> None:
    assert plane.call("operator", "POST", path, REASON, if_match='"long ago"').status == 200

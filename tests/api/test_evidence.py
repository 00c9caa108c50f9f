"""What can be asked afterwards: trials with their rows, why, the audit, keys."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.audit.export import read
from controller.cli.trials import words
from controller.judge.eprocess import e_value
from tests.api.plane import Plane


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Plane, str]]:
    """A plane on which a trial has at least two judged units, and that trial's id."""
    plane = Plane(tmp_path_factory.mktemp("tried"))
    plane.world.run(70)
    approved = plane.approved(2)
    plane.world.run(60)
    yield plane, str(plane.get(f"/v1/policies/{approved['id']}")["trial"])
    plane.close()


def test_a_trial_shows_its_plan_and_e_after_each_unit(tried: tuple[Plane, str]) -> None:
    plane, trial = tried
    found = plane.get(f"/v1/trials/{trial}")
    done = [unit for unit in found["units"] if unit["judged"]]
    assert len(done) >= 2
    plan = found["plan"]
    ds = [unit["d"][plan["primary"]] for unit in done]
    for index, unit in enumerate(done):
        worse = e_value([-d for d in ds[: index + 1]], scale=plan["scale"])
        assert unit["e"][f"{plan['primary']}<0"] == pytest.approx(worse)
    primary = found["series"][0]
    assert [point["d"] for point in primary["points"]] == ds
    assert primary["points"][-1]["e_worse"] == done[-1]["e"][f"{plan['primary']}<0"]
    listed = plane.get("/v1/trials?target=chat")["items"][0]
    assert (listed["id"], listed["units_judged"]) == (trial, len(done))


@pytest.mark.parametrize("kind", ["decisions", "trials", "policies", "overrides", "changes"])
def test_an_empty_list_of_a_target_that_nobody_declared_is_not_found(
    tried: tuple[Plane, str], kind: str
) -> None:
    plane, _ = tried
    found = plane.get(f"/v1/{kind}?target=chatt")
    assert (found.status, found["field"], found["allowed"]) == (404, "target", ["chat"])
    assert plane.get(f"/v1/{kind}?target=chat").status == 200


def test_a_crossover_shows_its_design_its_halves_and_what_each_replica_should_have(
    tmp_path: Path,
) -> None:
    plane = Plane(tmp_path, replicas=3, routing="random")
    plane.world.run(3)
    plane.approved(16)
    plane.world.run(2)
    found = plane.get("/v1/trials?target=chat")["items"][0]
    assert found["design"] == "crossover"
    shown = plane.get(f"/v1/trials/{found['id']}")
    assert [len(half) for half in shown["plan"]["split"]] == [1, 1]
    replicas = plane.get("/v1/targets/chat/settings")["replicas"]
    arms = [None if one["trial"] is None else one["trial"]["arm"] for one in replicas]
    assert sorted(map(str, arms)) == ["None", "baseline", "candidate"]
    assert [one["differs"] for one in replicas] == [[], [], []], "each has what it should have"
    told = words(shown.body)
    assert "units of 1 block of" in told
    for half in shown["plan"]["split"]:
        assert f"{half[0]}\n" in told
    plane.close()


def test_the_rows_of_a_trial_are_exported_one_a_line(tried: tuple[Plane, str]) -> None:
    plane, trial = tried
    rows = [json.loads(line) for line in plane.get(f"/v1/trials/{trial}/requests").body.split()]
    mine = [row for row in plane.world.rows.requests if row.trial == trial]
    assert [row["request_id"] for row in rows] == [row.request_id for row in mine]
    assert {row["arm"] for row in rows} == {"baseline", "candidate"}
    one = plane.get(f"/v1/trials/{trial}/requests?block=0").body.split()
    assert 0 < len(one) < len(rows)
    seconds = plane.get(f"/v1/trials/{trial}/seconds").body.split()
    assert json.loads(seconds[0])["trial"] == trial


def test_why_names_the_policy_in_force_and_who_approved_it(tried: tuple[Plane, str]) -> None:
    plane, trial = tried
    bad = next(r for r in plane.world.rows.requests if r.trial == trial and r.arm == "candidate")
    found = plane.get(f"/v1/requests/{bad.request_id}")
    assert found["stamp"]["digest"] == bad.digest
    assert (found["trial"]["id"], found["trial"]["arm"]) == (trial, "candidate")
    policy = found["policies"][0]
    assert (policy["id"], policy["words"]) == (bad.policies[0], "active_cap 8 → 2")
    approved = [entry for entry in policy["history"] if entry["action"] == "policy.approved"]
    assert approved[0]["actor"] == policy["decided_by"]


def test_requests_are_found_by_target_and_intent(plane: Plane) -> None:
    plane.world.run(20)
    found = plane.get("/v1/requests?target=chat&intent=batch&limit=5")["items"]
    assert [row["intent"] for row in found] == ["batch"] * 5


def test_the_audit_is_exported_with_the_bytes_that_were_hashed(plane: Plane) -> None:
    plane.proposed()
    lines = plane.call("auditor", "GET", "/v1/audit").body.splitlines()
    entries = list(read(lines))
    assert [entry.action for entry in entries][-2:] == ["policy.proposed", "policy.pending"]
    rest = plane.call("auditor", "GET", f"/v1/audit?after={len(lines) - 3}").body.splitlines()
    assert rest == lines[-2:]


def test_an_edited_row_is_named_by_verify(plane: Plane) -> None:
    made = plane.proposed()
    assert plane.get("/v1/audit/verify")["clean"] is True
    with sqlite3.connect(plane.folder / "store.db") as db:
        db.execute("UPDATE policies SET state = 'kept' WHERE id = ?", (made["id"],))
    found = plane.get("/v1/audit/verify")
    assert found["clean"] is False
    assert any(made["id"] in finding for finding in found["result"]["findings"])


def test_a_key_is_shown_once_and_revoked_at_once(plane: Plane) -> None:
    made = plane.post("/v1/keys", {"name": "ana", "role": "viewer"}, who="admin")
    assert made.status == 201
    token, key_id = made["key"], made["principal"]["id"]
    assert plane.call(token, "GET", "/v1/policies").status == 200
    listed = plane.call("admin", "GET", "/v1/keys")
    assert key_id in {one["id"] for one in listed["items"]}
    assert token not in json.dumps(listed.body)
    assert plane.call("admin", "DELETE", f"/v1/keys/{key_id}").status == 204
    assert plane.call(token, "GET", "/v1/policies").status == 401
    assert token not in plane.call("auditor", "GET", "/v1/audit").body


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "ana", "role": "king"}, "role"),
        ({"name": "Not A Name", "role": "viewer"}, "name"),
        ({"name": "shop", "role": "producer"}, "kinds"),
        ({"name": "shop", "role": "producer", "kinds": ["rumour"]}, "kinds"),
        ({"name": "ana", "role": "viewer", "expires_in_s": 1}, "expires_in_s"),
    ],
)
def test_a_bad_key_is_refused(calm: Plane, body: dict[str, object], field: str) -> None:
    refused = calm.post("/v1/keys", body, who="admin")
    assert (refused.status, refused["field"]) == (422, field)

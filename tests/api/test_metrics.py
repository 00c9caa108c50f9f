"""Metric definitions over REST: declared, changed, retired; whose they are; what a file owns."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.definitions import Declared, bring_in, declared_in
from signals.settings import MetricSettings
from tests.api.plane import Answered, Plane

PATH = "/v1/metric-definitions"


@pytest.fixture
def teams(plane: Plane) -> Plane:
    """A plane with an operator of each of two teams."""
    for name, team in (("gus", "growth"), ("sam", "support")):
        plane.tokens[name] = plane.key(name, "operator", team=team)
    return plane


def put(plane: Plane, who: str, name: str = "copied_twice", **fields: Any) -> Answered:
    return plane.call(who, "PUT", f"{PATH}/{name}", fields)


def test_what_is_built_in_is_there_with_its_version_and_who_manages_it(calm: Plane) -> None:
    found = {one["name"]: one for one in calm.get(PATH)["items"]}
    assert found.keys() == calm.services.settings.metrics.keys()
    thumbs = found["thumbs"]
    assert (thumbs["version"], thumbs["managed_by"], thumbs["owner"]) == (1, "built_in", "")
    assert (thumbs["low"], thumbs["absent"], thumbs["attribution_s"]) == (-1.0, "missing", 86_400)
    assert thumbs["from_us"] > 0
    assert thumbs["retired_us"] is None
    assert [one["name"] for one in calm.get(f"{PATH}?name=dwell_s")["items"]] == ["dwell_s"]
    assert calm.get(f"{PATH}?name=nothing").body == {"items": []}


def test_a_team_declares_changes_and_retires_its_metric(teams: Plane) -> None:
    made = put(teams, "gus")
    assert (made.status, made["version"], made["owner"]) == (200, 1, "growth")
    assert made["managed_by"] == "api"
    teams.world.run(1)
    changed = put(teams, "gus", high=5.0, direction="down")
    assert (changed["version"], changed["high"], changed["direction"]) == (2, 5.0, "down")
    teams.world.run(1)
    retired = teams.call("gus", "DELETE", f"{PATH}/copied_twice")
    assert (retired.status, retired["version"]) == (200, 2)
    first, second = teams.get(f"{PATH}/copied_twice")["items"]
    assert first["retired_us"] == second["from_us"] > first["from_us"]
    assert second["retired_us"] == retired["retired_us"] > second["from_us"]
    assert "copied_twice" not in {one["name"] for one in teams.get(PATH)["items"]}
    assert teams.call("gus", "DELETE", f"{PATH}/copied_twice").status == 404
    assert put(teams, "gus")["version"] == 3
    assert teams.get("/v1/audit/verify")["clean"] is True


def test_the_audit_says_who_changed_a_metric(teams: Plane) -> None:
    put(teams, "gus")
    put(teams, "gus", high=2.0)
    keys = {one["name"]: one["id"] for one in teams.call("admin", "GET", "/v1/keys")["items"]}
    with teams.world.store.read() as tx:
        entries = tx.audit(subject="copied_twice")
    assert [(one.action, one.actor) for one in entries] == [
        ("metric.declared", keys["gus"]),
        ("metric.changed", keys["gus"]),
    ]


def test_a_team_cannot_touch_anothers_metric_and_nothing_is_changed(teams: Plane) -> None:
    put(teams, "gus")
    before = teams.get(f"{PATH}/copied_twice").body
    refused = put(teams, "sam", high=2.0)
    assert (refused.status, refused["title"]) == (403, "Denied")
    assert "belongs to growth" in refused["detail"]
    assert teams.call("sam", "DELETE", f"{PATH}/copied_twice").status == 403
    assert put(teams, "gus", owner="support").status == 403
    assert put(teams, "operator").status == 403
    assert teams.get(f"{PATH}/copied_twice").body == before


def test_an_admin_may_change_any_and_hand_it_over(teams: Plane) -> None:
    put(teams, "gus")
    assert put(teams, "admin", high=2.0)["owner"] == "growth"
    assert put(teams, "admin", high=2.0, owner="support")["owner"] == "support"
    assert put(teams, "gus", high=3.0).status == 403
    assert put(teams, "sam", high=3.0)["version"] == 4


def test_a_viewer_reads_and_declares_nothing(teams: Plane) -> None:
    teams.tokens["vic"] = teams.key("vic", "viewer", team="growth")
    assert teams.call("vic", "GET", PATH).status == 200
    assert put(teams, "vic").status == 403


def test_a_teams_key_that_is_bounded_to_a_target_still_owns_its_metrics(teams: Plane) -> None:
    teams.tokens["loc"] = teams.key("loc", "operator", team="growth", targets=("chat",))
    teams.tokens["adm"] = teams.key("adm", "admin", targets=("chat",))
    assert put(teams, "loc")["owner"] == "growth"
    assert teams.call("loc", "GET", f"{PATH}/copied_twice").status == 200
    assert put(teams, "adm", high=2.0).status == 403


@pytest.mark.parametrize("name", ["thumbs", "reopened"])
def test_what_the_product_or_a_file_declares_is_changed_there(plane: Plane, name: str) -> None:
    wanted = declared_in(plane.services.settings)
    wanted["reopened"] = Declared(metric=MetricSettings(), managed_by="file")
    with plane.world.store.write() as tx:
        bring_in(tx, wanted, at_us=plane.world.clock_us())
    for refused in (
        put(plane, "admin", name, type="float" if name == "thumbs" else "boolean", high=2.0),
        plane.call("admin", "DELETE", f"{PATH}/{name}"),
    ):
        assert (refused.status, refused["field"]) == (409, "managed_by")
        assert refused["value"] == ("built_in" if name == "thumbs" else "file")


@pytest.mark.parametrize(
    ("fields", "field", "value", "allowed"),
    [
        ({"layer": "gossip"}, "layer", "gossip", "expected 'business' or 'semantic'"),
        ({"type": "text"}, "type", "text", "expected 'boolean', 'float', 'count' or 'duration'"),
        ({"direction": "left"}, "direction", "left", "expected 'up' or 'down'"),
        ({"attribution_s": 0}, "attribution_s", 0, "ge 1"),
        ({"attribution_s": 604_801}, "attribution_s", 604_801, "le 604800"),
        ({"absent": "never"}, "absent", "never", "expected 'zero' or 'missing'"),
        ({"low": 1.0}, "low", 1.0, "below 1"),
        ({"low": -1e13}, "low", -1e13, "ge -1000000000000.0"),
        ({"high": "nan"}, "high", "nan", "le 1000000000000.0"),
        ({"owner": "x" * 64}, "owner", "x" * 64, "max_length 63"),
        ({"owner": "Big Team"}, "owner", "Big Team", "^[a-z][a-z0-9_]{0,62}$"),
        ({"bounds": 1}, "bounds", 1, None),
    ],
)
def test_a_field_that_makes_no_sense_is_named_with_its_value_and_what_is_allowed(
    calm: Plane, fields: dict[str, Any], field: str, value: Any, allowed: str | None
) -> None:
    refused = put(calm, "admin", **fields)
    assert (refused.status, refused["field"]) == (422, field)
    assert (refused["value"], refused.body.get("allowed")) == (value, allowed)


@pytest.mark.parametrize("name", ["Bad", "9lives", "error", "x" * 64])
def test_a_name_that_cannot_be_used_is_refused(calm: Plane, name: str) -> None:
    refused = put(calm, "admin", name)
    assert (refused.status, refused["field"], refused["value"]) == (422, "name", name)


@pytest.mark.parametrize(
    ("field", "value", "is_"),
    [("type", "float", "boolean"), ("layer", "semantic", "business"), ("unit", "s", "")],
)
def test_what_is_for_ever_needs_a_new_name(teams: Plane, field: str, value: str, is_: str) -> None:
    put(teams, "gus")
    refused = put(teams, "gus", **{field: value})
    assert (refused.status, refused["field"], refused["value"]) == (409, field, value)
    assert refused.body["allowed"] == is_
    assert "declare a new name" in refused["detail"]


def test_a_name_never_declared_has_no_versions(calm: Plane) -> None:
    assert calm.get(f"{PATH}/nothing").status == 404
    assert calm.call("admin", "DELETE", f"{PATH}/nothing").status == 404


def test_only_so_many_metrics_are_in_force(plane: Plane) -> None:
    settings = plane.services.settings
    most = len(settings.metrics)
    bounded = settings.model_copy(
        update={"serve": settings.serve.model_copy(update={"max_metrics": most})}
    )
    plane.app.state.services = msgspec.structs.replace(plane.services, settings=bounded)
    refused = put(plane, "admin")
    assert (refused.status, refused["allowed"]) == (409, most)


def test_a_key_has_a_rate_an_influence_and_a_team(plane: Plane) -> None:
    body = {
        "name": "shop",
        "role": "producer",
        "kinds": ["business"],
        "rate_per_s": 250.5,
        "influence": 0.2,
    }
    made = plane.post("/v1/keys", body, who="admin")
    assert made.status == 201
    assert (made["principal"]["rate_per_s"], made["principal"]["influence"]) == (250.5, 0.2)
    plane.post("/v1/keys", {"name": "gus", "role": "operator", "team": "growth"}, who="admin")
    listed = {one["name"]: one for one in plane.call("admin", "GET", "/v1/keys")["items"]}
    assert (listed["gus"]["team"], listed["gus"]["influence"]) == ("growth", 1.0)


@pytest.mark.parametrize(
    ("fields", "field", "allowed"),
    [
        ({"rate_per_s": 0}, "rate_per_s", "gt 0.0"),
        ({"rate_per_s": 1e7}, "rate_per_s", "le 1000000.0"),
        ({"influence": 0}, "influence", "gt 0.0"),
        ({"influence": 1.5}, "influence", "le 1.0"),
        ({"team": "Growth"}, "team", "pattern ^[a-z][a-z0-9_]{0,62}$"),
        ({"kinds": ["command"]}, "kinds", "basic, semantic, business, *"),
        ({"name": "serve"}, "name", None),
    ],
)
def test_a_keys_bound_that_makes_no_sense_is_refused(
    calm: Plane, fields: dict[str, Any], field: str, allowed: str | None
) -> None:
    body = {"name": "shop", "role": "producer", "kinds": ["business"], **fields}
    refused = calm.post("/v1/keys", body, who="admin")
    assert (refused.status, refused["field"], refused.body.get("allowed")) == (422, field, allowed)

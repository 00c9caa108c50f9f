"""Metric definitions: versions, what is for ever, whose they are, what a configuration declares."""

from __future__ import annotations

from typing import Any

import pytest

from controller.audit.export import export, read
from controller.audit.verify import verify
from controller.definitions import Declared, bring_in, declare, differs, retire
from controller.metric_versions import in_force
from controller.store.address import StoreAddress
from controller.store.port import Principal
from controller.store.sql import SqlStore
from signals.definitions import Definition
from signals.errors import Broken, Conflict, Denied, NotFound, Rejected
from signals.settings import MetricSettings
from tests.store.samples import NOW_US

ADMIN = Principal(id="key_ann", name="ann", role="admin", targets=("*",))
GROWTH = Principal(id="key_gus", name="gus", role="operator", targets=("*",), team="growth")
SUPPORT = Principal(id="key_sam", name="sam", role="operator", targets=("*",), team="support")
NOBODYS = Principal(id="key_bob", name="bob", role="operator", targets=("*",))
BOUNDED = Principal(id="key_loc", name="loc", role="admin", targets=("chat",), team="growth")
MOST = 5


def put(
    store: SqlStore, by: Principal, name: str = "copied", *, at_us: int = NOW_US, **fields: Any
) -> Definition:
    with store.write() as tx:
        metric = MetricSettings.model_validate(fields)
        return declare(tx, name, metric, by=by, at_us=at_us, most=MOST)


def take(store: SqlStore, by: Principal, name: str = "copied", *, at_us: int = NOW_US) -> None:
    with store.write() as tx:
        retire(tx, name, by=by, at_us=at_us)


def brought(store: SqlStore, at_us: int = NOW_US, /, **metrics: Declared) -> list[Definition]:
    with store.write() as tx:
        return bring_in(tx, metrics, at_us=at_us)


def of_file(**fields: Any) -> Declared:
    return Declared(metric=MetricSettings.model_validate(fields), managed_by="file")


def built_in(**fields: Any) -> Declared:
    return Declared(metric=MetricSettings.model_validate(fields), managed_by="built_in")


def acts(store: SqlStore) -> list[tuple[str, str, str]]:
    with store.read() as tx:
        return [(entry.action, entry.subject, entry.actor) for entry in tx.audit()]


def current(store: SqlStore) -> dict[str, Definition]:
    with store.read() as tx:
        return {one.name: one for one in tx.definitions()}


def test_a_change_is_a_new_version_and_the_old_one_can_still_be_read(store: SqlStore) -> None:
    first = put(store, ADMIN, high=1.0)
    second = put(store, ADMIN, high=5.0, direction="down", attribution_s=60, at_us=NOW_US + 9)
    assert (first.version, second.version) == (1, 2)
    with store.read() as tx:
        old, new = tx.versions("copied")
        assert tx.definition("copied", 1) == old
        assert tx.definition("copied", 2) == new == second
        assert tx.definition("copied", 3) is tx.definition("other", 1) is None
        assert tx.versions("other") == []
    assert old.metric == first.metric
    assert (old.from_us, old.retired_us) == (NOW_US, NOW_US + 9)
    assert (new.from_us, new.retired_us) == (NOW_US + 9, None)
    assert current(store) == {"copied": second}


@pytest.mark.parametrize(
    ("field", "value"), [("type", "float"), ("layer", "semantic"), ("unit", "s")]
)
@pytest.mark.parametrize("after_retiring", [False, True])
def test_what_is_for_ever_is_refused_with_what_it_is(
    store: SqlStore, field: str, value: Any, after_retiring: bool
) -> None:
    put(store, ADMIN)
    if after_retiring:
        take(store, ADMIN)
    fields: dict[str, Any] = {field: value}
    with pytest.raises(Conflict, match="declare a new name") as refused:
        put(store, ADMIN, **fields)
    assert (refused.value.status, refused.value.field, refused.value.value) == (409, field, value)
    assert refused.value.allowed == getattr(MetricSettings(), field)


@pytest.mark.parametrize(
    ("name", "fields", "field"),
    [
        ("copied", {"low": 1.0, "high": 1.0}, "low"),
        ("copied", {"low": 2.0}, "low"),
        ("Copied", {}, "name"),
        ("copied\n", {}, "name"),
        ("n" * 64, {}, "name"),
        ("error", {}, "name"),
        ("copied", {"owner": "The Team"}, "owner"),
    ],
)
def test_a_metric_that_makes_no_sense_is_refused(
    store: SqlStore, name: str, fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(Rejected) as refused:
        put(store, ADMIN, name, **fields)
    assert (refused.value.status, refused.value.field) == (422, field)
    assert acts(store) == []


def test_saying_the_same_again_changes_nothing(store: SqlStore) -> None:
    made = put(store, ADMIN, high=3.0)
    assert put(store, ADMIN, high=3.0, at_us=NOW_US + 5) == made
    assert len(acts(store)) == 1


def test_each_change_is_one_audit_entry_that_says_who_and_what(
    store: SqlStore, address: StoreAddress
) -> None:
    put(store, GROWTH)
    put(store, GROWTH, high=2.0)
    take(store, GROWTH)
    put(store, GROWTH, high=3.0)
    names = ["metric.declared", "metric.changed", "metric.retired", "metric.declared"]
    assert acts(store) == [(name, "copied", "key_gus") for name in names]
    exported = list(read(export(address)))
    changed = exported[1].details
    assert (changed["definition"]["version"], changed["before"]["version"]) == (2, 1)
    assert changed["definition"] | {"high": "2.0", "owner": "growth"} == changed["definition"]
    assert exported[2].details["version"] == 2
    checked = verify(address)
    assert checked.clean
    assert checked.definitions == 3


def test_a_definition_is_only_recorded_with_its_change(store: SqlStore) -> None:
    for action in ("metric.declared", "metric.changed", "metric.retired"):
        with pytest.raises(Broken), store.write() as tx:
            tx.append_audit(
                at_us=NOW_US, actor="x", action=action, subject="a", target="", details={}
            )


def test_a_failing_transaction_leaves_neither_definition_nor_entry(store: SqlStore) -> None:
    with pytest.raises(Conflict), store.write() as tx:
        declare(tx, "copied", MetricSettings(), by=ADMIN, at_us=NOW_US, most=MOST)
        raise Conflict("later")
    assert (current(store), acts(store)) == ({}, [])


def test_a_clock_that_goes_back_does_not_turn_versions_round(
    store: SqlStore, address: StoreAddress
) -> None:
    put(store, ADMIN, at_us=NOW_US)
    changed = put(store, ADMIN, high=2.0, at_us=NOW_US - 7)
    assert changed.from_us == NOW_US
    take(store, ADMIN, at_us=NOW_US - 8)
    put(store, ADMIN, high=4.0, at_us=NOW_US - 9)
    with store.read() as tx:
        assert [(one.from_us, one.retired_us) for one in tx.versions("copied")] == [
            (NOW_US, NOW_US),
            (NOW_US, NOW_US),
            (NOW_US, None),
        ]
    assert verify(address).clean


def test_a_retired_metric_can_be_declared_again_in_its_next_version(store: SqlStore) -> None:
    put(store, ADMIN)
    take(store, ADMIN, at_us=NOW_US + 1)
    assert current(store) == {}
    with pytest.raises(NotFound, match="copied"):
        take(store, ADMIN)
    again = put(store, ADMIN, at_us=NOW_US + 2)
    assert (again.version, again.from_us, in_force(again)) == (2, NOW_US + 2, True)


def test_retiring_what_was_never_declared_is_not_found(store: SqlStore) -> None:
    with pytest.raises(NotFound):
        take(store, ADMIN, "nothing")


def test_a_team_changes_its_own_metrics_and_no_others(store: SqlStore) -> None:
    assert put(store, GROWTH).metric.owner == "growth"
    put(store, GROWTH, high=2.0)
    with pytest.raises(Denied, match="belongs to growth"):
        put(store, SUPPORT, high=3.0)
    with pytest.raises(Denied, match="belongs to growth"):
        take(store, SUPPORT)
    take(store, GROWTH)
    with pytest.raises(Denied, match="belongs to growth"):
        put(store, SUPPORT)


def test_an_unowned_metric_is_the_admins_alone(store: SqlStore) -> None:
    assert put(store, ADMIN).metric.owner == ""
    for by in (GROWTH, NOBODYS, BOUNDED):
        with pytest.raises(Denied):
            put(store, by, high=2.0)
    put(store, ADMIN, high=2.0)


def test_a_key_without_a_team_declares_nothing(store: SqlStore) -> None:
    with pytest.raises(Denied, match="has no team"):
        put(store, NOBODYS)


@pytest.mark.parametrize("owner", ["support", ""])
def test_a_team_cannot_give_a_metric_away_but_an_admin_can(store: SqlStore, owner: str) -> None:
    put(store, GROWTH)
    with pytest.raises(Denied, match="that team only"):
        put(store, GROWTH, owner=owner)
    assert put(store, ADMIN, owner=owner).metric.owner == owner
    with pytest.raises(Denied):
        put(store, GROWTH, high=2.0)


def test_an_owner_that_is_not_named_stays(store: SqlStore) -> None:
    put(store, GROWTH)
    assert put(store, ADMIN, high=2.0).metric.owner == "growth"


def test_an_admin_bounded_to_targets_counts_as_his_team(store: SqlStore) -> None:
    put(store, GROWTH)
    put(store, SUPPORT, "solved")
    assert put(store, BOUNDED, high=2.0).metric.owner == "growth"
    with pytest.raises(Denied):
        put(store, BOUNDED, "solved", high=2.0)


def test_only_so_many_are_in_force(store: SqlStore) -> None:
    for number in range(MOST):
        put(store, ADMIN, f"m{number}")
    with pytest.raises(Conflict, match="retire one first"):
        put(store, ADMIN, "beyond")
    put(store, ADMIN, "m0", high=2.0)
    take(store, ADMIN, "m1")
    put(store, ADMIN, "beyond")


def test_a_configuration_is_brought_in_once(store: SqlStore, address: StoreAddress) -> None:
    wanted = {"thumbs": built_in(low=-1.0), "reopened": of_file(direction="down")}
    assert differs(current(store).values(), wanted)
    made = brought(store, NOW_US, **wanted)
    assert [(one.name, one.version, one.managed_by) for one in made] == [
        ("thumbs", 1, "built_in"),
        ("reopened", 1, "file"),
    ]
    assert not differs(current(store).values(), wanted)
    assert brought(store, NOW_US, **wanted) == []
    assert acts(store) == [
        ("metric.declared", "thumbs", "built_in"),
        ("metric.declared", "reopened", "file"),
    ]
    assert verify(address).clean


def test_what_a_file_changes_is_a_new_version_and_what_left_it_is_retired(store: SqlStore) -> None:
    brought(store, thumbs=built_in(), reopened=of_file(), gone=of_file())
    put(store, ADMIN, "own")
    changed = brought(
        store, NOW_US + 1, thumbs=of_file(high=5.0), reopened=of_file(attribution_s=9)
    )
    assert [(one.name, one.version, in_force(one)) for one in changed] == [
        ("thumbs", 2, True),
        ("reopened", 2, True),
        ("gone", 1, False),
    ]
    assert current(store).keys() == {"thumbs", "reopened", "own"}
    assert current(store)["thumbs"].managed_by == "file"
    back = brought(store, NOW_US + 2, thumbs=built_in(), reopened=of_file(attribution_s=9))
    assert [(one.name, one.version, one.managed_by) for one in back] == [("thumbs", 3, "built_in")]


def test_a_file_that_changes_what_is_for_ever_changes_nothing_at_all(store: SqlStore) -> None:
    brought(store, thumbs=built_in(), reopened=of_file(), calm=of_file())
    before = current(store)
    with pytest.raises(Conflict) as refused:
        brought(
            store, thumbs=of_file(type="float"), reopened=of_file(unit="s"), calm=of_file(high=2.0)
        )
    lines = refused.value.detail.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("metrics.thumbs: thumbs was declared with type 'boolean'")
    assert "metrics.reopened" in lines[1]
    assert current(store) == before


@pytest.mark.parametrize("sort", [of_file, built_in])
def test_what_is_declared_elsewhere_is_not_changed_by_hand(store: SqlStore, sort: Any) -> None:
    brought(store, thumbs=sort())
    for act in (
        lambda: put(store, ADMIN, "thumbs", high=2.0),
        lambda: take(store, ADMIN, "thumbs"),
    ):
        with pytest.raises(Conflict, match="in the configuration") as refused:
            act()
        assert refused.value.field == "managed_by"
        assert refused.value.value == sort().managed_by


def test_a_file_takes_over_a_name_that_was_declared_by_hand(store: SqlStore) -> None:
    put(store, GROWTH, "reopened")
    brought(store, reopened=of_file())
    assert current(store)["reopened"].managed_by == "file"
    with pytest.raises(Denied):
        put(store, GROWTH, "reopened")
    brought(store)
    assert current(store) == {}
    assert put(store, ADMIN, "reopened").version == 3

"""``GET`` and ``PATCH /v1/runtime_config``: what is shown, applied and refused. Any engine."""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import Any

import httpx
import pytest

from policies.runtime_config import CONTROL_PATH
from tests.contract.conftest import Config, Control, shown
from tests.contract.engines import EngineUnderTest


def spec_of(config: Config, knob: str) -> Config:
    return next(spec for spec in config["knobs"] if spec["name"] == knob)


def test_it_shows_each_knobs_capacity_capability_and_observed_value(control: Control) -> None:
    seen = control.get()
    for spec in seen["knobs"]:
        assert spec["low"] <= spec["boot"] <= spec["capacity"]
        assert spec["capability"] in ("live", "drain", "idle", "restart", "unsupported")
        assert shown(seen, spec["name"])["value"] == spec["boot"]
    assert spec_of(seen, "active_cap")["capability"] == "drain"
    assert seen["incarnation"]
    assert seen["engine_time"] > 0


@pytest.mark.parametrize("key", ["guess", "Bearer", "control"])
def test_no_other_key_opens_it(engine_under_test: EngineUnderTest, key: str) -> None:
    for wrong in (key, *engine_under_test.foreign_keys):
        answer = httpx.get(
            engine_under_test.settings_url, headers={"Authorization": f"Bearer {wrong}"}
        )
        assert answer.status_code == 401
        assert answer.headers["content-type"] == "application/problem+json"
    assert httpx.get(engine_under_test.settings_url).status_code == 401


def test_the_log_says_what_each_place_has_after_a_change(control: Control) -> None:
    ruled = control.patch({"knob": "active_cap", "law": LAW, "policy_id": "p"})
    line = ruled["changes"][-1]
    assert (line["holder"], line["scope"]) == ("p", "target")
    assert line["law"] == shown(ruled, "active_cap")["law"]
    plain = control.patch({"knob": "active_cap", "value": 2})["changes"][-1]
    assert (plain["after"], plain["law"], plain["holder"]) == (2, None, None)


def test_a_patch_without_the_key_changes_nothing(
    engine_under_test: EngineUnderTest, control: Control
) -> None:
    change = control.change({"knob": "active_cap", "value": 1})
    assert httpx.patch(engine_under_test.settings_url, json=change).status_code == 401
    assert control.get()["version"] == int(change["expected"].partition(":")[2])


def test_a_patch_is_answered_once_applied_with_what_is_observed(control: Control) -> None:
    change = control.change({"knob": "active_cap", "value": 2, "policy_id": "p1"})
    answer = control.send(change).json()
    assert shown(answer, "active_cap")["value"] == 2
    assert shown(answer, "active_cap")["policy_id"] == "p1"
    assert answer["change_id"] == change["change_id"]
    assert answer["applied_at"] is not None
    seen = control.get()
    assert shown(seen, "active_cap") == shown(answer, "active_cap")
    assert (seen["version"], seen["digest"]) == (answer["version"], answer["digest"])


def test_a_repeated_change_gets_the_first_answer_and_is_applied_once(control: Control) -> None:
    change = control.change({"knob": "active_cap", "value": 2})
    first = control.send(change)
    control.patch({"knob": "active_cap", "value": 3})
    again = control.send(change)
    assert (again.status_code, again.json()) == (200, first.json())
    assert control.cap()["value"] == 3


def test_a_lower_epoch_is_fenced_and_both_are_named(control: Control) -> None:
    epoch = control.get()["epoch"] + 5
    control.patch(epoch=epoch)
    refused = control.send(control.change({"knob": "active_cap", "value": 2}, epoch=epoch - 1))
    assert refused.status_code == 409
    problem = refused.json()
    assert problem["field"] == "epoch"
    assert str(epoch) in problem["detail"]
    assert str(epoch - 1) in problem["detail"]


def test_a_patch_that_expects_something_else_is_stale(control: Control) -> None:
    seen = control.get()
    here = f"{seen['incarnation']}:{seen['version']}"
    for expected in (f"{seen['incarnation']}:{seen['version'] - 1}", f"other:{seen['version']}"):
        refused = control.send(
            control.change({"knob": "active_cap", "value": 2}, expected=expected)
        )
        assert refused.status_code == 409
        assert refused.json()["field"] == "expected"
        assert here in refused.json()["detail"]
    assert control.get()["version"] == seen["version"]


LAW: Config = {
    "variable": "arrivals",
    "class": "interactive",
    "window_s": 1.0,
    "default": 3,
    "steps": [{"above": 0, "value": 2}],
    "hysteresis": 0,
    "min_dwell_s": 0,
}


@pytest.mark.parametrize(
    ("setting", "field"),
    [
        ({"knob": "active_cap", "value": 0}, "value"),
        ({"knob": "active_cap", "value": 1_000_000}, "value"),
        ({"knob": "no_such_knob", "value": 1}, "knob"),
        ({"knob": "active_cap", "scope": "no_such_intent", "value": 2}, "scope"),
        ({"knob": "active_cap", "value": 2, "law": LAW}, ""),
        ({"knob": "active_cap", "law": LAW | {"default": 0}}, "law.default"),
        ({"knob": "active_cap", "law": LAW | {"steps": []}}, "law.steps"),
        ({"knob": "active_cap", "law": LAW | {"class": "no_such_class"}}, "law.class"),
        ({"knob": "active_cap", "law": LAW | {"window_s": 0}}, "law.window_s"),
        ({"knob": "active_cap", "law": LAW | {"variable": "queue_depth"}}, "law.variable"),
        ({"knob": "active_cap", "value": 2, "expires_in_s": 0}, "expires_in_s"),
        ({"knob": "active_cap", "value": 2, "expires_in_s": 1e9}, "expires_in_s"),
        ({"knob": "active_cap", "value": 2, "fallback": {"value": 0}}, "fallback.value"),
        ({"knob": "active_cap", "value": 2, "shrink": "kill"}, "shrink"),
        ({"knob": "active_cap", "value": "2"}, "value"),
    ],
)
def test_what_cannot_be_is_refused_with_its_field(
    control: Control, setting: Config, field: str
) -> None:
    before = control.get()
    refused = control.send(control.change(setting))
    assert refused.status_code == 422
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.json()["field"].endswith(field)
    assert control.get()["version"] == before["version"]
    assert control.cap() == shown(before, "active_cap")


def test_a_refusal_says_what_was_allowed(control: Control) -> None:
    capacity = spec_of(control.get(), "active_cap")["capacity"]
    refused = control.send(control.change({"knob": "active_cap", "value": capacity + 1})).json()
    assert refused["value"] == capacity + 1
    assert f"1..{capacity}" in refused["allowed"]
    unknown = control.send(control.change({"knob": "no_such_knob", "value": 1})).json()
    assert "active_cap" in unknown["allowed"]


def test_one_bad_setting_refuses_the_good_ones_beside_it(control: Control) -> None:
    refused = control.send(
        control.change({"knob": "active_cap", "value": 2}, {"knob": "no_such_knob", "value": 1})
    )
    assert refused.status_code == 422
    assert control.cap()["value"] == spec_of(control.get(), "active_cap")["boot"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff\xfe", b'{"change_id": "x"}'])
def test_what_is_not_a_patch_is_refused(control: Control, body: bytes) -> None:
    before = control.get()["version"]
    assert control.client.patch(CONTROL_PATH, content=body).status_code == 422
    assert control.get()["version"] == before


def test_an_unknown_field_is_refused_rather_than_ignored(control: Control) -> None:
    for change in (
        control.change({"knob": "active_cap", "value": 2, "expire_in_s": 5}),
        control.change({"knob": "active_cap", "law": LAW | {"hysterisis": 1}}),
        control.change({"knob": "active_cap", "value": 2}, untill="now"),
    ):
        assert control.send(change).status_code == 422


def test_a_body_without_bound_is_refused(control: Control) -> None:
    assert control.client.patch(CONTROL_PATH, content=b" " * 2_000_000).status_code == 413


def test_null_inherits_the_boot_value(control: Control) -> None:
    control.patch({"knob": "active_cap", "value": 2, "policy_id": "p"})
    answer = control.patch({"knob": "active_cap", "value": None, "law": None})
    cap = shown(answer, "active_cap")
    assert (cap["value"], cap["policy_id"]) == (spec_of(answer, "active_cap")["boot"], None)


def test_of_two_patches_with_the_same_expectation_one_wins_and_one_is_stale(
    control: Control, engine_under_test: EngineUnderTest
) -> None:
    for _ in range(10):
        changes = [control.change({"knob": "active_cap", "value": value}) for value in (2, 3)]
        statuses: list[int] = []
        start = threading.Barrier(2)

        def send(change: Config, start: Any = start, statuses: list[int] = statuses) -> None:
            with engine_under_test.client() as client:
                start.wait()
                statuses.append(Control(client).send(change).status_code)

        senders = [threading.Thread(target=send, args=(change,)) for change in changes]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        assert sorted(statuses) == [200, 409]


def test_the_change_log_goes_on_without_a_gap(control: Control) -> None:
    before = control.get()
    for value in (2, 3, 2):
        control.patch({"knob": "active_cap", "value": value, "policy_id": f"p{value}"})
    after = control.get()
    numbers = [change["seq"] for change in after["changes"]]
    assert numbers == list(range(after["log_from"], after["log_from"] + len(numbers)))
    new = [change for change in after["changes"] if change["seq"] > before["changes"][-1]["seq"]]
    assert [(c["cause"], c["knob"], c["after"], c["policy_id"]) for c in new] == [
        ("patch", "active_cap", value, f"p{value}") for value in (2, 3, 2)
    ]
    assert [change["version"] for change in new] == [before["version"] + n for n in (1, 2, 3)]
    assert all(earlier["after"] == later["before"] for earlier, later in pairwise(new))
    times = [change["at"] for change in after["changes"]]
    assert times == sorted(times)


def test_a_reader_may_ask_for_the_news_only(control: Control) -> None:
    last = control.get()["changes"][-1]["seq"]
    control.patch({"knob": "active_cap", "value": 2})
    news = control.client.get(CONTROL_PATH, params={"after": last}).json()["changes"]
    assert [change["seq"] for change in news] == [last + 1]


def test_a_trial_is_on_the_answers_that_arrive_under_it_and_ends_with_the_next_patch(
    control: Control, engine_under_test: EngineUnderTest
) -> None:
    trial = {"id": "t1", "block": 7, "arm": "candidate"}
    applied = control.patch({"knob": "active_cap", "value": 2, "policy_id": "p1"}, trial=trial)
    (under,) = engine_under_test.offer(1, 2, "batch").answers()
    assert under.stamp["trial"] == trial
    assert under.stamp["policies"] == ["p1"]
    assert under.stamp["version"] == applied["version"]
    assert under.stamp["digest"] == applied["digest"]
    assert under.stamp["incarnation"] == applied["incarnation"]
    after = control.patch()
    assert after["trial"] is None
    assert after["digest"] == applied["digest"]
    (later,) = engine_under_test.offer(1, 2, "batch").answers()
    assert later.stamp.get("trial") is None
    assert later.stamp["version"] == after["version"]

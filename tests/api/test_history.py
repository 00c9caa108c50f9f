"""The past over REST: settings at a time, diffs, timelines, who did what, reports."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller.history.report import Scope, control_report
from controller.history.times import rfc3339
from controller.store.port import Tx
from controller.store.sql import open_store
from policies.lifecycle import State
from policies.policy import Approval, Policy
from policies.runtime_config import Patch, SettingChange
from signals.events import MICROS
from signals.ids import uuid7
from tests.api.plane import Plane
from tests.store.samples import NOW_US, a_decision, a_policy


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    story = Story(Plane(tmp_path_factory.mktemp("told")))
    yield story
    story.plane.close()


class Story:
    """A policy tried, reverted; a hold; a restart; a stranger's change; in this order."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.at: dict[str, int] = {}
        plane.world.run(2)
        self.mark("baseline")
        self.policy_id = str(plane.approved()["id"])
        plane.world.run(30, until=lambda: self.cap() == 16)
        plane.world.run(1)
        self.mark("candidate")
        self.request_id = plane.world.rows.requests[-1].request_id
        plane.world.run(2)
        plane.post(f"/v1/policies/{self.policy_id}/revert", {"reason": "=2+2"})
        plane.world.run(2)
        self.mark("reverted")
        plane.post("/v1/targets/chat/hold", {"reason": "an alarm"})
        plane.world.run(2)
        self.mark("held")
        plane.post("/v1/targets/chat/release", {"reason": "it was not us"})
        plane.world.run(2)
        self.mark("released")
        plane.world.engine.reachable = False
        plane.world.run(5)
        self.mark("away")
        plane.world.run(1)
        self.mark("died")
        plane.world.engine.die()
        plane.world.run(3)
        plane.world.engine.reachable = True
        plane.world.run(3)
        self.mark("back")
        self.foreign()
        plane.world.run(3)
        self.mark("foreign")

    def mark(self, name: str) -> None:
        self.at[name] = self.plane.world.clock_us()

    def cap(self) -> int:
        return self.plane.world.cap()

    def foreign(self) -> None:
        world = self.plane.world
        seen = world.engine.read()
        world.engine.patch(
            Patch(
                change_id="a-stranger",
                epoch=seen.epoch,
                expected=seen.expected,
                settings=(SettingChange(knob="active_cap", value=5),),
                trial=seen.trial,
            )
        )

    def settings(self, name: str, more: str = "") -> Any:
        answer = self.plane.get(f"/v1/targets/chat/settings?at={self.at[name]}{more}")
        assert answer.status == 200
        return answer.body

    def place(self, name: str) -> Any:
        found = self.settings(name)["replicas"][0]
        assert found["known"]
        return next(one for one in found["places"] if one["place"] == "active_cap")

    def diff(self, first: str, then: str) -> Any:
        span = f"from={self.at[first]}&to={self.at[then]}"
        answer = self.plane.get(f"/v1/targets/chat/settings/diff?{span}")
        assert answer.status == 200
        return answer.body

    def pages(self, path: str, query: str, *, limit: int) -> list[Any]:
        found: list[Any] = []
        before = ""
        while True:
            page = self.plane.get(f"{path}?limit={limit}{query}{before}").body
            found += page["items"]
            if page["next"] is None:
                return found
            before = f"&before={page['next']}"


def test_each_time_has_its_settings_and_their_makers(told: Story) -> None:
    first, second = told.place("baseline"), told.place("candidate")
    assert (first["value"], first["maker"]["kind"]) == (8, "baseline")
    assert first["maker"]["id"] == "baseline@1"
    assert (second["value"], second["maker"]["kind"]) == (16, "policy")
    assert second["maker"]["id"] == told.policy_id
    assert len(second["maker"]["decided_by"]) == 1
    assert told.place("reverted")["value"] == 8


def test_the_audit_holds_what_is_answered(told: Story) -> None:
    replica = told.settings("candidate")["replicas"][0]
    place = told.place("candidate")
    with told.plane.world.store.read() as tx:
        observed, decided = (
            tx.audit(after=index - 1, limit=1)[0]
            for index in (replica["entry"], place["maker"]["entry"])
        )
    assert observed.action == "settings.observed"
    assert observed.details["segment"]["settings"]["active_cap"]["value"] == 16
    assert (decided.action, decided.subject) == ("policy.approved", told.policy_id)


def test_times_are_rfc_3339_or_micros_or_ago(told: Story) -> None:
    at = rfc3339(told.at["candidate"])
    found = told.plane.get(f"/v1/targets/chat/settings?at={at}")
    assert found["replicas"] == told.settings("candidate")["replicas"]
    assert told.plane.get("/v1/targets/chat/settings?at=now")["known"]
    assert told.plane.get("/v1/targets/chat/settings?at=1s")["known"]
    for wrong in ("yesterday", "2026-11-24T03:00", "-1", "99999999999999999999", "0m"):
        refused = told.plane.get(f"/v1/targets/chat/settings?at={wrong}")
        assert refused.status == 422, wrong
        assert refused["field"] == "at"
    future = told.plane.get(f"/v1/targets/chat/settings?at={told.at['foreign'] + 60 * MICROS}")
    assert (future.status, future["field"]) == (422, "at")


def test_where_nobody_looked_it_is_unknown_from_when_to_when(told: Story) -> None:
    (replica,) = told.settings("away")["replicas"]
    assert replica["known"] is False
    assert told.at["released"] - MICROS < replica["from_us"] <= told.at["released"]
    assert replica["until_us"] == told.at["died"]
    assert "nobody saw" in replica["why"]
    assert told.settings("away")["known"] is False


def test_before_anything_was_recorded_it_is_unknown(told: Story) -> None:
    (replica,) = told.plane.get("/v1/targets/chat/settings?at=1000")["replicas"]
    assert (replica["known"], replica["from_us"]) == (False, None)
    assert replica["until_us"] <= told.at["baseline"]


def test_an_engine_that_does_not_answer_is_known_until_its_last_read_back(plane: Plane) -> None:
    plane.world.run(2)
    plane.world.engine.reachable = False
    seen_us = plane.world.clock_us()
    plane.world.run(30)
    (replica,) = plane.get("/v1/targets/chat/settings?at=now")["replicas"]
    assert (replica["known"], replica["until_us"]) == (False, None)
    assert replica["from_us"] <= seen_us
    diff = plane.get(f"/v1/targets/chat/settings/diff?from={seen_us}&to=now")
    assert diff["changes"]["answer"] == "unknown"
    plane.world.engine.reachable = True
    plane.world.run(2)
    assert plane.get(f"/v1/targets/chat/settings?at={seen_us + 20 * MICROS}")["known"]
    diff = plane.get(f"/v1/targets/chat/settings/diff?from={seen_us}&to=now")
    assert diff["changes"]["answer"] == "no"


def test_a_diff_names_what_differs_and_through_what(told: Story) -> None:
    found = told.diff("baseline", "candidate")
    assert found["same"] is False
    (differs,) = found["replicas"][0]["differs"]
    assert (differs["place"], differs["before"], differs["after"]) == ("active_cap", "8", "16")
    assert differs["maker"]["id"] == told.policy_id
    moves = [one for one in found["changes"]["moves"] if one["places"]]
    assert moves[-1]["places"][0]["maker"]["id"] == told.policy_id
    actions = {one["action"] for one in found["acts"]}
    assert {"policy.proposed", "policy.approved", "policy.on_trial"} <= actions


def test_whether_settings_changed_is_yes_no_or_unknown(told: Story) -> None:
    assert told.diff("baseline", "candidate")["changes"]["answer"] == "yes"
    assert told.diff("reverted", "held")["changes"]["answer"] == "no"
    found = told.diff("released", "away")
    assert found["changes"]["answer"] == "unknown"
    assert found["same"] is None
    assert "nobody saw" in found["changes"]["unknown"][0]["why"]


def test_changed_and_changed_back_is_the_same_but_changed(told: Story) -> None:
    found = told.diff("baseline", "reverted")
    assert (found["same"], found["changes"]["answer"]) == (True, "yes")


def test_a_stranger_s_change_is_nobody_s_of_ours(told: Story) -> None:
    place = told.place("foreign")
    assert (place["value"], place["maker"]["kind"]) == (5, "other")
    assert place["maker"]["entry"] is not None


def test_a_request_leads_to_all_that_touched_it(told: Story) -> None:
    found = told.plane.get(f"/v1/requests/{told.request_id}").body
    assert found["met"]["by"] == "stamp"
    (replica,) = found["met"]["replicas"]
    assert replica["known"]
    touched = {one["kind"]: one for one in found["met"]["touched"]}
    assert set(touched) == {"policy", "trial"}
    assert touched["policy"]["id"] == told.policy_id
    actions = [one["action"] for one in touched["policy"]["entries"]]
    assert actions[:3] == ["policy.proposed", "policy.pending", "policy.approved"]
    assert touched["policy"]["body"]["reason"] == "a test"
    assert touched["trial"]["body"]["plan"]["policy_id"] == told.policy_id
    with told.plane.world.store.read() as tx:
        for one in touched["policy"]["entries"]:
            assert tx.audit(after=one["index"] - 1, limit=1)[0].subject == told.policy_id


def test_a_version_that_was_never_read_is_said_to_be_unknown(told: Story) -> None:
    rows = told.plane.world.rows.requests
    strange = msgspec.structs.replace(
        rows[-1], request_id="chat.strange", incarnation="life9", version=7
    )
    rows.append(strange)
    (replica,) = told.plane.get("/v1/requests/chat.strange")["met"]["replicas"]
    assert replica["known"] is False
    assert "never read back" in replica["why"]


def test_a_forgotten_request_is_told_by_when_it_arrived(told: Story) -> None:
    plane = told.plane
    kept_s = plane.services.settings.features.request_retention_s
    young = minted(told.at["candidate"])
    assert plane.get(f"/v1/requests/{young}").status == 404
    now_s = plane.world.now_s
    try:
        plane.world.now_s += kept_s
        found = plane.get(f"/v1/requests/{young}").body
        assert (found["request"], found["stamp"], found["met"]["by"]) == (None, None, "time")
        (replica,) = found["met"]["replicas"]
        assert replica["known"]
        assert told.policy_id in {one["id"] for one in found["met"]["touched"]}
        gone = plane.get(f"/v1/requests/{minted(told.at['away'])}").body
        assert gone["met"]["replicas"][0]["known"] is False
    finally:
        plane.world.now_s = now_s
    for wrong in ("chat.none", "mail.018bcfe5-687b-774b-8000-000000000000", "external-7"):
        assert plane.get(f"/v1/requests/{wrong}").status == 404


def minted(at_us: int) -> str:
    return f"chat.{uuid7(at_us, bytes(8))}"


def test_a_timeline_is_the_same_in_pages_of_any_size(told: Story) -> None:
    whole = told.pages("/v1/targets/chat/timeline", "", limit=1000)
    assert told.pages("/v1/targets/chat/timeline", "", limit=3) == whole
    places = [(one["at_us"], one["entry"]) for one in whole]
    assert places == sorted(places, reverse=True)
    assert len(set(places)) == len(places)
    kinds = {one["kind"] for one in whole}
    assert {"policy", "trial", "control", "engine", "settings", "unknown", "baseline"} <= kinds


def test_a_timeline_is_cut_by_time_and_kind(told: Story) -> None:
    span = f"&from={told.at['reverted']}&to={told.at['released']}"
    found = told.pages("/v1/targets/chat/timeline", f"{span}&kind=control", limit=2)
    assert [one["action"] for one in found][::-1] == [
        "control.held",
        "control.reached",
        "control.released",
        "control.reached",
    ]
    (hole,) = told.pages("/v1/targets/chat/timeline", "&kind=unknown", limit=5)
    assert told.at["released"] - MICROS < hole["at_us"] <= told.at["released"]
    wrong = told.plane.get("/v1/targets/chat/timeline?before=yes")
    assert (wrong.status, wrong["field"]) == (422, "before")


def test_history_is_filtered_and_pages_are_stable_while_it_grows(told: Story) -> None:
    every = told.pages("/v1/history", "", limit=1000)
    assert [one["index"] for one in every] == list(range(len(every)))[::-1]
    first = told.plane.get("/v1/history?limit=5").body
    told.plane.proposed(value=4)
    told.plane.proposed(value=2)
    rest = told.plane.get(f"/v1/history?limit=1000&before={first['next']}").body["items"]
    assert first["items"] + rest == every
    by_subject = told.pages("/v1/history", f"&subject={told.policy_id}", limit=2)
    assert by_subject[-1]["action"] == "policy.proposed"
    assert {one["subject"] for one in by_subject} == {told.policy_id}
    family = told.pages("/v1/history", "&action=control.", limit=2)
    assert {one["action"] for one in family} == {
        "control.held",
        "control.reached",
        "control.released",
    }
    person = family[0]["actor"]
    acts = told.pages("/v1/history", f"&actor={person}&target=chat", limit=3)
    assert {one["actor"] for one in acts} == {person}
    span = f"&from={told.at['reverted']}&to={told.at['released']}"
    within = told.pages("/v1/history", span, limit=4)
    stretch = [x for x in every if told.at["reverted"] <= x["at_us"] < told.at["released"]]
    assert within == stretch


def test_history_is_exported_whole_and_opens_no_formula(told: Story) -> None:
    every = told.pages("/v1/history", "", limit=1000)
    lines = exported(told, "/v1/history", "application/x-ndjson")
    assert [msgspec.json.decode(line) for line in lines.splitlines()] == every
    rows = list(csv.DictReader(io.StringIO(exported(told, "/v1/history", "text/csv"))))
    assert [int(row["index"]) for row in rows] == [one["index"] for one in every]
    assert all(row["time"].endswith("Z") for row in rows)
    report = exported(told, "/v1/reports/control?from=1d", "text/csv", who="auditor")
    for cell in [cell for row in csv.reader(io.StringIO(report)) for cell in row]:
        assert not cell.startswith(("=", "+", "-", "@"))


def exported(told: Story, path: str, form: str, *, who: str = "viewer") -> str:
    bearer = {"Authorization": f"Bearer {told.plane.tokens[who]}", "Accept": form}
    answer = told.plane.http.get(path, headers=bearer)
    described = told.plane.app.openapi()["paths"][path.partition("?")[0]]["get"]["responses"]
    assert form in described["200"]["content"]
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith(form)
    return answer.text


def test_the_control_report_names_each_exception(told: Story) -> None:
    report = told.plane.call("auditor", "GET", "/v1/reports/control?target=chat&from=1d")
    assert report.status == 200
    found = report["findings"]
    (held,) = found["stopped"]
    assert held["words"] == "held: an alarm"
    assert told.at["reverted"] <= held["at_us"] < held["until_us"] <= told.at["released"]
    (hole,) = found["unknown_spans"]
    assert hole["until_us"] is not None
    (stranger,) = found["foreign_changes"]
    assert "active_cap = 5" in stranger["words"]
    assert {one["who"] for one in found["keys_idle"]} >= {"approver"}
    assert told.plane.get("/v1/reports/control").status == 403


def test_a_key_of_some_intents_sees_the_timeline_and_not_the_audit_of_all(told: Story) -> None:
    live = told.plane.key("live", "viewer", intents=("live",))
    assert told.plane.call(live, "GET", "/v1/history?target=chat").status == 403
    assert told.plane.call(live, "GET", "/v1/targets/chat/timeline").status == 200


def test_a_key_of_one_target_names_it(told: Story) -> None:
    mine = told.plane.key("mine", "auditor", targets=("chat",))
    assert told.plane.call(mine, "GET", "/v1/history").status == 403
    assert told.plane.call(mine, "GET", "/v1/history?target=chat").status == 200
    assert told.plane.call(mine, "GET", "/v1/reports/control?target=chat").status == 200


def test_solo_approvals_overdue_reviews_and_denials_are_reported(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'store.db'}")
    with store.write() as tx:
        solo = Approval(by="key_ada", at_us=NOW_US, shown_digest="d", solo=True)
        pair = tuple(
            Approval(by=name, at_us=NOW_US, shown_digest="d") for name in ("key_ada", "key_bob")
        )
        alone = kept(tx, a_policy(), approvals=(solo,))
        two = kept(tx, a_policy(risk="high", approvals_needed=2), approvals=pair)
        denial = a_decision(denied="no", guardrail="dwell", figures={"dwell_s": 5.0})
        tx.add_decision(msgspec.structs.replace(denial, at_us=NOW_US, policy_id=None))
    with store.read() as tx:
        scope = Scope(target=None, from_us=0, to_us=NOW_US + 10, now_us=NOW_US + 10)
        found = control_report(tx, scope).findings
    store.close()
    assert [(x.subject, x.who) for x in found["solo_approvals"]] == [(alone.id, "key_ada")]
    assert [(x.subject, x.who) for x in found["four_eyes_approvals"]] == [
        (two.id, "key_ada, key_bob")
    ]
    assert {x.subject for x in found["overdue_reviews"]} == {alone.id, two.id}
    assert "dwell" in found["denied"][0].words


def kept(tx: Tx, policy: Policy, *, approvals: tuple[Approval, ...]) -> Policy:
    now = tx.add_policy(policy)
    now = tx.move(now, "pending", actor="loop", at_us=NOW_US)
    now = tx.move(
        now, "approved", actor="key_ada", at_us=NOW_US, approvals=approvals, decided_by="key_ada"
    )
    states: tuple[State, ...] = ("applying", "on_trial")
    for state in states:
        now = tx.move(now, state, actor="loop", at_us=NOW_US)
    return tx.move(now, "kept", actor="loop", at_us=NOW_US, review_us=NOW_US + 5)

"""The past over REST: settings at a time, diffs, requests, timelines, who did what."""

from __future__ import annotations

import msgspec

from controller.history.times import rfc3339
from signals.events import MICROS
from signals.ids import uuid7
from tests.api.plane import Plane
from tests.api.story import Story


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


def test_a_timeline_of_some_kinds_is_whole_however_rare_they_are(told: Story) -> None:
    whole = told.pages("/v1/targets/chat/timeline", "", limit=1000)
    for kinds in (("unknown",), ("settings",), ("unknown", "control"), ("baseline", "engine")):
        asked = "".join(f"&kind={kind}" for kind in kinds)
        found = told.pages("/v1/targets/chat/timeline", asked, limit=1)
        assert found == [one for one in whole if one["kind"] in kinds], kinds


def test_a_span_that_ends_before_it_begins_is_refused(told: Story) -> None:
    span = f"from={told.at['released']}&to={told.at['reverted']}"
    for path in ("/v1/targets/chat/timeline", "/v1/history"):
        wrong = told.plane.get(f"{path}?{span}")
        assert (wrong.status, wrong["field"]) == (422, "from"), path


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

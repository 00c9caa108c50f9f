"""Dead letters, orphans, producers and commands, over REST."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from signals.events import MICROS, Signal
from tests.api.plane import Answered, Plane
from tests.loop.plant import START_S
from tests.signals.making import arrived, feedback, finished, request_id

T0_US = round(START_S) * MICROS


def dead(id_: str, *, name: str = "unheard_of", target: str = "chat", **rest: Any) -> Signal:
    """Feedback that was accepted once, of a metric that the stage does not know."""
    made = feedback(id_, T0_US + 1_000_000, number=1, name=name, **rest)
    return msgspec.structs.replace(made, target=target)


@pytest.fixture
def littered(plane: Plane) -> Plane:
    """A plane with one request, three dead letters of two producers, and an orphan."""
    plane.stage.take(
        arrived(1, 1, T0_US),
        finished(2, 1, T0_US, T0_US + 500_000),
        dead("a"),
        dead("b", producer="mall"),
        dead("c", producer="mall"),
        feedback("waits", T0_US + 1_000_000, number=2),
    )
    plane.key("mall", "producer")
    return plane


def told(plane: Plane, given: Answered) -> dict[str, Any]:
    """What became of a command, once the stage has it."""
    assert given.status == 202, given.body
    where = given.headers["location"]
    assert plane.get(where)["state"] == "waiting"
    plane.stage.fold()
    found: dict[str, Any] = plane.get(where).body
    return found


def letters(plane: Plane, query: str = "") -> list[str]:
    return [one["id"] for one in plane.get(f"/v1/dead-letters?{query}")["items"]]


def test_dead_letters_are_found_by_reason_producer_and_place(littered: Plane) -> None:
    page = littered.get("/v1/dead-letters?limit=2")
    assert [(one["event_id"], one["reason"]) for one in page["items"]] == [
        ("a", "undeclared_metric"),
        ("b", "undeclared_metric"),
    ]
    assert page["counts"] == {"undeclared_metric": 3}
    assert '"unheard_of"' in page["items"][0]["body"]
    rest = littered.get(f"/v1/dead-letters?limit=2&after={page['next']}")
    assert [one["event_id"] for one in rest["items"]] == ["c"]
    assert rest["next"] is None
    assert len(letters(littered, "producer=mall")) == 2
    assert letters(littered, "reason=conflict") == []
    one = littered.get(f"/v1/dead-letters/{page['items'][0]['id']}")
    assert one.body == page["items"][0]
    assert littered.get("/v1/dead-letters/0-999").status == 404
    assert littered.get("/v1/dead-letters/nonsense").status == 422
    assert littered.get("/v1/dead-letters?after=x")["field"] == "after"


def test_letters_are_discarded_by_id_and_the_audit_says_who(littered: Plane) -> None:
    first, *rest = letters(littered)
    given = littered.post("/v1/dead-letters/discard", {"ids": [first], "reason": "a  typo\n"})
    done = told(littered, given)
    assert (done["state"], done["command"], done["reason"]) == ("done", "discard", "a typo")
    assert done["events"][0]["outcome"]["done"] == 1
    assert letters(littered) == rest
    with littered.world.store.read() as tx:
        entry = tx.audit(subject=given["id"])[0]
    assert (entry.action, entry.target, entry.actor) == (
        "command.discard",
        "chat",
        done["actor"],
    )
    assert entry.details["offsets"] == [int(first.partition("-")[2])]
    again = littered.post("/v1/dead-letters/discard", {"ids": [first], "reason": "x"})
    assert again.status == 404


def test_letters_are_replayed_by_what_they_have_in_common(littered: Plane) -> None:
    body = {"where": {"producer": "mall"}, "reason": "look again"}
    done = told(littered, littered.post("/v1/dead-letters/replay", body))
    outcome = done["events"][0]["outcome"]
    assert (outcome["done"], outcome["failed"]) == (0, 2)
    attempts = {one["event_id"]: one["attempts"] for one in _items(littered)}
    assert attempts == {"a": 0, "b": 1, "c": 1}


def _items(plane: Plane) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = plane.get("/v1/dead-letters")["items"]
    return found


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"reason": "neither"}, ""),
        ({"ids": ["0-1"], "where": {}, "reason": "both"}, ""),
        ({"ids": [], "reason": "none"}, "ids"),
        ({"ids": ["0-1"]}, "reason"),
        ({"ids": ["0-1"], "reason": " \n "}, "reason"),
        ({"ids": ["0-1"] * 1001, "reason": "many"}, "ids"),
        ({"where": {"colour": "red"}, "reason": "x"}, "where.colour"),
        ({"ids": ["1"], "reason": "x"}, "id"),
        ({"where": {"target": "search"}, "reason": "x"}, "target"),
    ],
)
def test_a_bad_command_is_refused_and_changes_nothing(
    littered: Plane, body: dict[str, object], field: str
) -> None:
    before = len(littered.world.actions())
    refused = littered.post("/v1/dead-letters/replay", body)
    assert refused.status in (404, 422)
    assert refused.body.get("field", "") in (field, "body")
    assert littered.stage.waiting == []
    assert len(littered.world.actions()) == before


def test_a_producer_is_set_aside_and_let_in_again(littered: Plane) -> None:
    given = littered.post("/v1/producers/mall/quarantine", {"reason": "spam"})
    assert told(littered, given)["state"] == "done"
    mall = producer(littered, "mall")
    assert mall["quarantined"] is True
    assert (mall["quarantine"]["actor"], mall["quarantine"]["reason"]) == ("operator", "spam")
    littered.stage.take(feedback("later", T0_US + 2_000_000, number=1, producer="mall"))
    aside = littered.get("/v1/dead-letters?reason=quarantined")["items"]
    assert [one["event_id"] for one in aside] == ["later"]
    again = littered.post("/v1/producers/mall/quarantine", {"reason": "spam"})
    assert again.status == 409
    told(littered, littered.post("/v1/producers/mall/release", {"reason": "sorry"}))
    assert producer(littered, "mall")["quarantine"] is None
    body = {"where": {"reason": "quarantined"}, "reason": "they were fine"}
    told(littered, littered.post("/v1/dead-letters/replay", body))
    assert littered.get("/v1/dead-letters?reason=quarantined")["items"] == []
    assert producer(littered, "mall")["joined"] == 1


def producer(plane: Plane, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(
        one for one in plane.get("/v1/producers")["items"] if one["producer"] == name
    )
    return found


def test_producers_show_what_became_of_their_events(littered: Plane) -> None:
    shop = producer(littered, "shop")
    assert (shop["events"], shop["dead"], shop["waiting"]) == (2, 1, 1)
    assert shop["dead_by_reason"] == {"undeclared_metric": 1}
    assert shop["influence"] is None
    assert producer(littered, "mall")["influence"] == 1.0


def test_a_name_that_nobody_posts_under_is_not_set_aside(littered: Plane) -> None:
    refused = littered.post("/v1/producers/mal/quarantine", {"reason": "spam"})
    assert (refused.status, refused["allowed"]) == (404, ["mall"])
    assert littered.post("/v1/producers/serve/release", {"reason": "x"}).status == 422


def test_orphans_are_listed_and_counted_by_producer(littered: Plane) -> None:
    found = littered.get("/v1/orphans?target=chat")
    assert [(one["id"], one["request_id"]) for one in found["items"]] == [("waits", request_id(2))]
    assert found["waiting"] == {"shop": 1}
    assert littered.get("/v1/orphans?producer=mall")["items"] == []


def test_commands_are_listed_newest_first_in_pages(littered: Plane) -> None:
    for id_ in letters(littered):
        littered.post("/v1/dead-letters/discard", {"ids": [id_], "reason": id_})
        littered.world.now_s += 1
    littered.stage.fold()
    page = littered.get("/v1/commands?limit=2")
    rest = littered.get(f"/v1/commands?limit=2&before={page['next']}")
    reasons = [one["reason"] for one in [*page["items"], *rest["items"]]]
    assert reasons == sorted(reasons, reverse=True)
    assert len(reasons) == 3
    assert littered.get("/v1/commands?target=search")["items"] == []
    assert littered.get("/v1/commands/cmd_none").status == 404
    littered.world.now_s += 86_401
    assert {one["state"] for one in littered.get("/v1/commands")["items"]} == {"done"}


def test_without_ingest_nothing_changes_and_503_says_so(littered: Plane) -> None:
    littered.stage.away = True
    before = len(littered.world.actions())
    for path in ("/v1/producers/mall/quarantine", "/v1/dead-letters/discard"):
        body: dict[str, object] = {"reason": "x"}
        body |= {"where": {}} if "letters" in path else {}
        answer = littered.post(path, body)
        assert answer.status == 503
        assert "retry-after" in answer.headers
    assert len(littered.world.actions()) == before
    assert len(letters(littered)) == 3


def test_a_command_that_ingest_did_not_confirm_is_recorded_as_that(littered: Plane) -> None:
    littered.stage.mute = True
    assert littered.post("/v1/dead-letters/discard", {"where": {}, "reason": "x"}).status == 503
    assert littered.world.actions()[-2:] == ["command.discard", "command.unconfirmed"]
    given = littered.get("/v1/commands")["items"][0]
    assert given["state"] == "unconfirmed"
    littered.stage.fold()
    assert littered.get(f"/v1/commands/{given['id']}")["state"] == "done"
    assert letters(littered) == []


def test_a_key_bounded_to_one_target_sees_and_moves_only_its_letters(littered: Plane) -> None:
    other = dead("theirs", target="search")
    littered.stage.take(other)
    theirs = letters(littered, "target=search")
    token = littered.key("local", "operator", targets=("chat",))
    assert littered.call(token, "GET", "/v1/dead-letters").status == 403
    assert littered.call(token, "GET", "/v1/dead-letters?target=search").status == 403
    mine = littered.call(token, "GET", "/v1/dead-letters?target=chat")
    assert not {one["id"] for one in mine["items"]} & {*theirs}
    assert littered.call(token, "GET", f"/v1/dead-letters/{theirs[0]}").status == 404
    choices: list[dict[str, object]] = [
        {"ids": theirs},
        {"where": {}},
        {"where": {"target": "search"}},
    ]
    for chosen in choices:
        body = {**chosen, "reason": "x"}
        answer = littered.call(token, "POST", "/v1/dead-letters/discard", body)
        assert answer.status in (403, 404)
    own = {"where": {"target": "chat"}, "reason": "mine"}
    given = littered.call(token, "POST", "/v1/dead-letters/discard", own)
    told(littered, given)
    assert letters(littered) == theirs
    assert littered.call(token, "GET", given.headers["location"]).status == 200
    everyones = littered.post("/v1/producers/mall/quarantine", {"reason": "x"})
    assert everyones.status == 202
    assert littered.call(token, "POST", "/v1/producers/mall/release", {"reason": "x"}).status == 403


def test_the_bus_tells_how_far_the_feature_stage_is(littered: Plane) -> None:
    found = littered.get("/v1/bus")
    partition = found["partitions"][0]
    assert (found["kind"], partition["lag"]) == ("sqlite", {"features": 0})
    assert partition["end"] == 6


def test_prometheus_is_told_what_waits_for_somebody(littered: Plane) -> None:
    told(littered, littered.post("/v1/producers/mall/quarantine", {"reason": "spam"}))
    figures = littered.get("/metrics").body
    assert 'trimtab_dead_letters{reason="undeclared_metric"} 3.0' in figures
    assert 'trimtab_orphans{producer="shop"} 1.0' in figures
    assert "trimtab_quarantined 1.0" in figures


def test_the_next_command_goes_on_where_one_left_off(littered: Plane) -> None:
    def discarded(after: int) -> dict[str, Any]:
        where = {"target": "chat", "limit": 1, "after": after}
        body = {"where": where, "reason": "one by one"}
        found = told(littered, littered.post("/v1/dead-letters/discard", body))
        outcome: dict[str, Any] = found["events"][0]["outcome"]
        return outcome

    first = discarded(0)
    second = discarded(first["last_offset"])
    assert second["last_offset"] > first["last_offset"]
    assert len(letters(littered)) == 1

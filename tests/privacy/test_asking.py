"""Erasures over REST and on the command line; what the store forgets by itself."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller.api.server import serve_until
from controller.config.sections import ServeSettings
from controller.privacy import DAY_S, PrivacySettings
from controller.retention import prune
from controller.store.past_port import Delivery
from controller.store.port import Decision
from signals.events import MICROS, Erase
from signals.pseudonyms import Pseudonyms
from tests.api.plane import Answered, Plane
from tests.cli.running import Trimtab, answers, until
from tests.signals.making import T0_US, feedback, request_id
from tests.signals.processes import free_port

SESSION = "canary-session"


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Plane]:
    made = Plane(tmp_path)
    made.world.run(1)
    yield made
    made.close()


def asked(plane: Plane, who: str = "admin", **body: Any) -> Answered:
    given = {"by": "session", "id": SESSION, "reason": "its user asked", **body}
    return plane.call(who, "POST", "/v1/erasures", given)


def test_an_erasure_is_a_command_whose_end_can_be_asked_for(plane: Plane) -> None:
    plane.stage.take(feedback("f1", T0_US, session_id=SESSION))
    answer = asked(plane)
    assert answer.status == 202
    path = f"/v1/commands/{answer['command']['id']}"
    assert answer.headers["location"] == path
    assert plane.get(path)["state"] == "waiting"
    plane.stage.fold()
    found = plane.get(path)
    assert (found["state"], found["command"]) == ("done", "erase")
    assert found["events"][0]["outcome"]["done"] == 1
    assert plane.get("/v1/orphans?target=chat")["items"] == []
    bus = plane.services.settings.bus
    longest_us = (bus.retention_s + bus.segment_s) * MICROS
    remains = answer["remains"]
    assert remains[0]["where"] == "the bus"
    assert remains[0]["until_us"] <= plane.world.clock_us() + longest_us
    assert remains[1] == {"where": "the engine's trace log", "until_us": None}


def test_the_audit_keeps_who_asked_and_the_pseudonym_never_the_id(plane: Plane) -> None:
    answer = asked(plane)
    with plane.world.store.read() as tx:
        entries = [e for e in tx.audit(limit=1000) if e.action == "erasure.requested"]
        assert SESSION not in json.dumps(msgspec.to_builtins(tx.audit(limit=1000)))
    (entry,) = entries
    assert entry.details["pseudonym"] == Pseudonyms(b"k" * 32).session(SESSION)
    assert entry.details["pseudonym"] == answer["pseudonym"]
    assert entry.details["reason"] == "its user asked"
    assert SESSION not in json.dumps(answer.body)
    assert SESSION not in json.dumps(plane.get("/v1/commands").body)


def test_where_ids_are_hashed_only_the_pseudonym_goes_to_the_bus(plane: Plane) -> None:
    from controller.erasing import Erasures
    from controller.settings import Settings

    given = {**plane.services.settings.model_dump(by_alias=True), "privacy": {"hash_ids": True}}
    names, settings = Pseudonyms(b"k" * 32), Settings.model_validate(given)
    erasures = Erasures(plane.services.feedback, settings, names, clock=plane.world.clock_us)
    plane.services = msgspec.structs.replace(plane.services, erasures=erasures)
    plane.app.state.services = plane.services
    asked(plane)
    asked(plane, also_plain=True)
    asked(plane, id=names.session(SESSION))
    asked(plane, by="request", id=request_id(1))
    commands = [signal.command for signal in plane.stage.waiting]
    assert all(isinstance(command, Erase) for command in commands)
    assert [command.ids for command in commands if isinstance(command, Erase)] == [
        (names.session(SESSION),),
        (names.session(SESSION), SESSION),
        (names.session(SESSION),),
        (request_id(1),),
    ]


def test_what_can_not_be_erased_is_refused_and_nothing_is_recorded(plane: Plane) -> None:
    for status, body in (
        (422, {"id": "two words"}),
        (422, {"by": "request", "id": "order-7"}),
        (422, {"by": "request", "id": request_id(1), "target": "draw"}),
        (422, {"by": "user"}),
        (422, {"reason": " "}),
        (404, {"target": "draw"}),
    ):
        assert asked(plane, **body).status == status, body
    assert asked(plane, "operator").status == 403
    plane.stage.away = True
    assert asked(plane).status == 503
    with plane.world.store.read() as tx:
        assert all(entry.action != "erasure.requested" for entry in tx.audit(limit=1000))


def test_the_command_line_waits_and_says_where_it_may_still_be(
    plane: Plane, tmp_path: Path
) -> None:
    plane.stage.take(feedback("f1", T0_US, session_id=SESSION))
    settings, stop = ServeSettings(port=free_port()), threading.Event()
    serving = threading.Thread(target=serve_until, args=(stop, plane.app, settings))
    serving.start()
    url = f"http://127.0.0.1:{settings.port}"
    (tmp_path / "admin.key").write_text(plane.tokens["admin"])
    env = {"TRIMTAB_URL": url, "TRIMTAB_KEY_FILE": str(tmp_path / "admin.key")}
    trimtab = Trimtab(tmp_path, env)
    try:
        until(lambda: answers(f"{url}/healthz"), "the control plane answers")
        done = trimtab("erase", "--session", SESSION, "-m", "its user asked", "--wait", "0")
        assert done.code == 0, done.err
        assert "waiting" in done.out
        assert "may still be in the bus, until " in done.out
        assert SESSION not in done.out
        assert trimtab("erase", "-m", "nobody").code == 2
        assert trimtab("erase", "--session", "a", "--external", "b", "-m", "two").code == 2
    finally:
        stop.set()
        serving.join()


def test_the_store_forgets_old_decisions_and_done_deliveries_in_bounded_steps(
    plane: Plane,
) -> None:
    day_us = DAY_S * MICROS
    now_us = 1000 * day_us
    settings = PrivacySettings(decision_days=90, delivery_days=14, prune_rows=3)
    with plane.world.store.write() as tx:
        for number in range(8):
            tx.add_decision(_decision(number, now_us - (97 - 2 * number) * day_us))
            for state in ("waiting", "delivered"):
                tx.add_delivery(_delivery(f"{state}:{number}", state, number, now_us - 15 * day_us))
        tx.add_delivery(_delivery("young:9", "given_up", 9, now_us - 13 * day_us))
    rounds = 1
    while prune(plane.world.store, settings, now_us=now_us):
        rounds += 1
    assert rounds == 3
    with plane.world.store.read() as tx:
        left = {one.id for one in tx.decisions(limit=100)}
        kept = sorted(one.id for one in tx.deliveries(limit=100))
    assert {one for one in left if one.startswith("dec_test")} == {
        f"dec_test{number}" for number in range(4, 8)
    }
    assert kept == [*(f"waiting:{number}" for number in range(8)), "young:9"]


def _decision(number: int, at_us: int) -> Decision:
    return Decision(
        id=f"dec_test{number}",
        target="chat",
        at_us=at_us,
        source="rule",
        context={},
        actions=("a",),
        chosen="a",
        propensity=1.0,
        model="m",
        seed=1,
        cursor=1,
    )


def _delivery(id_: str, state: Any, entry: int, at_us: int) -> Delivery:
    return Delivery(id=id_, hook="ops", entry=entry, state=state, due_us=at_us, created_us=at_us)

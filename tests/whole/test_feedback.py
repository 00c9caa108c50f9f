"""Feedback through the real processes of a machine without an engine, as an operator sees it.

The engine's records are posted here by hand, under a producer's key for basic signals.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from signals.codec import encode
from signals.events import MICROS, IntentLoad, Record, Signal
from signals.ids import uuid7
from tests.cli.running import Done, Trimtab, Up, until
from tests.cli.test_up import configured
from tests.signals.making import arrived, basic, finished, second

ATOM_US = 5 * MICROS


class Machine:
    """``trimtab up`` without an engine, its command line, and keys for an engine and a shop."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        config = configured(folder)
        settings = json.loads(config.read_text())
        settings["features"] = {"lateness_s": 1, "publish_ms": 50}
        config.write_text(json.dumps(settings))
        self.up = Up(config)
        self.trimtab = Trimtab(folder)
        self.seq = 0
        self.start_us = time.time_ns() // 1000 // ATOM_US * ATOM_US - 60 * MICROS

    def wait(self) -> Machine:
        for name in ("features", "ingest", "serve"):
            self.up.wait_for("ready", name, within_s=90)
        self.urls = self.up.wait_for("ready", within_s=5)["urls"]
        for name, kind in (("shop", "business"), ("box", "basic")):
            words = ("keys", "create", name, "--role", "producer", "--kind", kind)
            assert self(*words, "--out", str(self.folder / f"{name}.key")).code == 0
        return self

    def __call__(self, *words: str, stdin: str | None = None) -> Done:
        return self.trimtab(*words, stdin=stdin)

    def post(self, producer: str, *events: dict[str, Any]) -> Done:
        file = self.folder / "events.ndjson"
        file.write_text("".join(json.dumps(event) + "\n" for event in events))
        key = str(self.folder / f"{producer}.key")
        return self("signals", "post", str(file), "--key", key, "--json")

    def request(self, number: int) -> str:
        return f"chat.{uuid7(self.start_us, number.to_bytes(8, 'big'))}"

    def at(self, s: float) -> int:
        return self.start_us + round(s * MICROS)

    def served(self, number: int) -> None:
        """A request that arrives ``number`` seconds after the start and is answered at once."""
        at_us, id_ = self.at(number), self.request(number)
        came = arrived(self._seq(), 0, at_us, intent="batch")
        went = finished(self._seq(), 0, at_us, at_us + 400_000, intent="batch")
        self.engine(*(msgspec.structs.replace(record, request_id=id_) for record in (came, went)))

    def silent(self, s: float) -> None:
        """A second without requests: the watermark moves on."""
        self.engine(second(self._seq(), self.at(s), batch=IntentLoad()))

    def _seq(self) -> int:
        self.seq += 1
        return self.seq - 1

    def engine(self, *records: Record) -> None:
        """Post records as the engine does."""
        done = self.post("box", *(_posted(basic(record)) for record in records))
        assert done.code == 0, done.out + done.err

    def tell(self, id_: str, s: float, **about: Any) -> Done:
        """Feedback of the shop."""
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.at(s) // MICROS))
        event = {"id": id_, "kind": "business", "time": when, "value": 1, **about}
        return self.post("shop", event)


def _posted(signal: Signal) -> dict[str, Any]:
    """A basic signal as an engine posts it."""
    shown: dict[str, Any] = json.loads(encode(signal))
    return {name: shown[name] for name in ("id", "kind", "name", "target", "data")}


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """One for these tests, in the order of the file."""
    started = Machine(tmp_path_factory.mktemp("feedback"))
    try:
        yield started.wait()
    finally:
        started.up.close()


def test_feedback_is_posted_and_its_window_shows_what_came_of_it(machine: Machine) -> None:
    for number in range(4):
        machine.served(number)
    machine.silent(30)
    for number in range(3):
        done = machine.tell(
            f"copy-{number}", number + 1, name="answer_copied", request_id=machine.request(number)
        )
        assert done.code == 0, done.out

    def copied() -> bool:
        done = machine("windows", "chat", "--width", "5s", "--since", "10m", "--json")
        assert done.code == 0, done.err
        found = done.json
        outcomes = [one["counts"]["outcomes"].get("answer_copied") for one in found["items"]]
        closed = [one for one in found["items"] if one["closed"]]
        return bool(closed) and {"shop": [3, 3_000_000]} in outcomes

    until(copied, "three copies are in the window of their requests")
    shown = machine("windows", "chat", "--width", "5s", "--since", "10m")
    assert "attained" in shown.out and "answer_copied" in shown.out


def test_an_unknown_metric_is_refused_until_it_is_declared(machine: Machine) -> None:
    about = {"name": "answer_shared", "request_id": machine.request(1)}
    refused = machine.tell("share-1", 2, **about)
    assert refused.code == 2
    assert refused.json["refusals"][0]["field"] == "name"
    words = ("metrics", "declare", "answer_shared", "--type", "boolean", "--attribution-s", "600")
    declared = machine(*words)
    assert declared.code == 0, declared.err
    until(lambda: machine.tell("share-1", 2, **about).code == 0, "the new metric is taken")
    joined(machine, 1, "share-1")


def joined(machine: Machine, number: int, event_id: str) -> None:
    """Wait until an event is joined to a request, once."""

    def once() -> bool:
        done = machine("why", machine.request(number), "--json")
        if done.code:
            return False
        return [one["event_id"] for one in done.json["outcomes"]].count(event_id) == 1

    until(once, f"{event_id} is joined")


def test_feedback_before_its_request_waits_as_an_orphan(machine: Machine) -> None:
    early = machine.tell("early", 41, name="answer_copied", request_id=machine.request(40))
    assert early.code == 0
    until(lambda: bool(orphans(machine)), "the orphan is listed")
    assert [one["id"] for one in orphans(machine)] == ["early"]
    assert "waiting: 1 of shop" in machine("signals", "orphans", "--target", "chat").out
    machine.served(40)
    joined(machine, 40, "early")
    assert orphans(machine) == []


def orphans(machine: Machine) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = machine("signals", "orphans", "--json").json["items"]
    return found


def letters(machine: Machine, *words: str) -> list[dict[str, Any]]:
    done = machine("dead-letters", "list", *words, "--json")
    assert done.code == 0, done.err
    found: list[dict[str, Any]] = done.json["items"]
    return found


def test_one_id_with_two_bodies_is_a_dead_letter_that_can_be_discarded(machine: Machine) -> None:
    about = {"name": "thumbs", "request_id": machine.request(2)}
    for value in (1, -1):
        assert machine.tell("thumb", 3, **(about | {"value": value})).code == 0
    until(lambda: bool(letters(machine, "--for", "conflict")), "the second one is a dead letter")
    (letter,) = letters(machine, "--for", "conflict", "--producer", "shop")
    assert '"value":-1.0' in machine("dead-letters", "show", letter["id"]).out
    again = machine("dead-letters", "replay", letter["id"], "-m", "look again")
    assert "chat: 0 done, 1 failed again" in again.out
    gone = machine("dead-letters", "discard", letter["id"], "-m", "they sent it twice")
    assert gone.code == 0, gone.err
    assert "discard by" in gone.out and "chat: 1 done" in gone.out
    assert letters(machine) == []
    assert "they sent it twice" in machine("signals", "commands").out


def test_a_producer_in_quarantine_counts_for_nothing_until_its_letters_are_replayed(
    machine: Machine,
) -> None:
    aside = machine("producers", "quarantine", "shop", "-m", "everything is copied")
    assert "chat: shop is set aside" in aside.out, aside.err
    assert machine.tell("aside", 4, name="answer_copied", request_id=machine.request(3)).code == 0
    until(lambda: bool(letters(machine, "--for", "quarantined")), "it is set aside")
    assert "set aside by admin: everything is copied" in machine("producers", "list").out
    refused = machine("producers", "quarantine", "shop", "-m", "again")
    assert (refused.code, "already set aside" in refused.err) == (2, True)
    assert machine("producers", "release", "shop", "-m", "fixed").code == 0
    words = ("dead-letters", "replay", "--for", "quarantined", "--producer", "shop", "-m", "fine")
    assert "chat: 1 done" in machine(*words).out
    joined(machine, 3, "aside")
    assert letters(machine) == []
    assert machine("audit", "verify").code == 0


def test_doctor_says_what_is_wrong_worst_first_and_what_to_do(machine: Machine) -> None:
    done = machine("doctor", "chat", "--json")
    assert done.code == 2
    found = done.json["findings"]
    levels = [one["level"] for one in found]
    assert levels == sorted(levels, key=["FAIL", "WARN", "OK"].index)
    told = {(one["level"], one["about"]): one["what"] for one in found}
    assert "does not answer" in " ".join(one["what"] for one in found if one["level"] == "FAIL")
    assert "takes events" in told["OK", "ingest"]
    assert any("last record" in one["what"] for one in found)
    assert any("joined" in one["what"] for one in found if one["about"] == "shop")
    assert all(one["advice"] for one in found if one["level"] != "OK")
    words = machine("doctor", "chat").out
    assert words.startswith("FAIL") and "→" in words


def test_the_bus_is_shown_event_by_event(machine: Machine) -> None:
    words = ("signals", "tail", "--no-follow", "--since", "1h")
    lines = machine(*words, "--kind", "business", "--producer", "shop").out.splitlines()
    assert any("business answer_copied  1  request chat." in line for line in lines)
    commands = machine(*words, "--kind", "command", "--json").out.splitlines()
    assert [json.loads(line)["signal"]["name"] for line in commands] == [
        "replay",
        "discard",
        "quarantine",
        "quarantine",
        "replay",
    ]
    assert len(machine("signals", "tail", "--no-follow", "-n", "3").out.splitlines()) == 3


def test_the_bus_folded_again_gives_the_same_windows(machine: Machine) -> None:
    machine.silent(50)
    into = str(machine.folder / "scratch.db")
    done = machine("signals", "replay", "--into", into, "--compare", "--json")
    assert done.code == 0, done.out + done.err
    comparison = done.json["comparison"]
    assert comparison["differences"] == 0
    assert comparison["windows"] >= 3
    assert comparison["outcomes"] >= 6
    again = machine("signals", "replay", "--into", into)
    assert (again.code, "exists" in again.err) == (2, True)


def test_a_window_that_was_edited_is_found_by_the_comparison(machine: Machine) -> None:
    with closing(sqlite3.connect(machine.folder / "state/features.db")) as db:
        db.execute(
            "UPDATE windows SET counts = json_set(counts, '$.judged', 99)"
            " WHERE closed AND width_s = 5 AND json_extract(counts, '$.judged') = 4"
        )
        assert db.total_changes
        db.commit()
    into = str(machine.folder / "scratch-2.db")
    done = machine("signals", "replay", "--into", into, "--compare")
    assert done.code == 1
    assert "1 differ" in done.out
    assert "5 s window of chat/batch on r0" in done.out

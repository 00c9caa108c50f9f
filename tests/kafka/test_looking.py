"""What operators see and do where the bus is Kafka's: every partition, and commands in each."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.broker import Broker
from tests.cli.running import Trimtab
from tests.kafka.buses import PARTITIONS, wait_until
from tests.kafka.test_up import TARGETS, Engines, Machine
from tests.signals.making import request_id


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[tuple[Machine, Trimtab]]:
    with Broker() as broker, closing(Machine(tmp_path, broker)) as running:
        yield running, Trimtab(tmp_path)


def test_every_partition_is_seen_commanded_and_folded_again(
    machine: tuple[Machine, Trimtab], tmp_path: Path
) -> None:
    running, trimtab = machine
    load = Engines(running.engines)
    load.start()
    wait_until(lambda: load.acknowledged > 40)
    posted = load.end()
    key = tmp_path / "shop.key"
    words = ("keys", "create", "shop", "--role", "producer", "--kind", "business")
    assert trimtab(*words, "--out", str(key)).code == 0
    aside = trimtab("producers", "quarantine", "shop", "-m", "a test", "--json")
    assert aside.code == 0, aside.err
    assert [(one["target"], one["state"]) for one in aside.json["events"]] == [
        (target, "done") for target in TARGETS
    ]
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    about = {"kind": "business", "time": at, "name": "answer_copied", "value": 1}
    events = [
        {**about, "id": f"e{number}", "request_id": request_id(number, target)}
        for number, target in enumerate(TARGETS)
    ]
    lines = "".join(json.dumps(event) + "\n" for event in events)
    done = trimtab("signals", "post", "-", "--key", str(key), stdin=lines)
    assert done.code == 0, done.out + done.err

    def letters() -> list[str]:
        found = trimtab("dead-letters", "list", "--for", "quarantined", "--json").json["items"]
        return [one["id"].partition("-")[0] for one in found]

    wait_until(lambda: len(letters()) == PARTITIONS)
    assert sorted(letters()) == [str(number) for number in range(PARTITIONS)]
    assert trimtab("producers", "release", "shop", "-m", "over").code == 0
    again = trimtab("dead-letters", "replay", "--producer", "shop", "-m", "fine", "--json")
    outcomes = [event["outcome"] for one in again.json["items"] for event in one["events"]]
    assert [outcome["done"] for outcome in outcomes] == [1] * PARTITIONS
    assert len(trimtab("signals", "orphans", "--json").json["items"]) == PARTITIONS
    bus = running.admin.get("/v1/bus").raise_for_status().json()
    assert [part["lag"]["features"] for part in bus["partitions"]] == [0] * PARTITIONS
    tail = ("signals", "tail", "--no-follow", "--since", "1h", "--json")
    shown = [json.loads(line) for line in trimtab(*tail, "--kind", "basic").out.splitlines()]
    assert {one["partition"] for one in shown} == set(range(PARTITIONS))
    assert len(shown) == posted * PARTITIONS
    for number in range(PARTITIONS):
        into = ("--into", str(tmp_path / f"again-{number}.db"), "--partition", str(number))
        compared = trimtab("signals", "replay", *into, "--compare", "--json")
        assert compared.code == 0, compared.out + compared.err
        assert compared.json["comparison"]["differences"] == 0
        assert compared.json["folded"]["entries"] >= posted + 1
    assert "FAIL" in trimtab("doctor").out

"""Files of events, posted in parts to a real signals API that is full now and then."""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path

import pytest

from controller.cli.posting import documents, parts
from signals.bus.memory import MemoryBus
from signals.bus.port import Message
from signals.codec import decode
from signals.definitions import StaticDefinitions
from signals.errors import Rejected, Unavailable
from signals.ingest.keys import Producer, StaticKeys, sha256_hex
from signals.ingest.main import run
from signals.settings import IngestSettings
from tests.cli.running import Done, Trimtab, answers, until
from tests.signals.making import INTENTS, METRICS, request_id
from tests.signals.processes import free_port

KEYS = StaticKeys(
    {
        sha256_hex("shop"): Producer(name="shop", kinds=frozenset({"business"})),
        sha256_hex("slow"): Producer(name="slow", kinds=frozenset({"business"}), rate_per_s=2.0),
    }
)


class FickleBus(MemoryBus):
    """Remembers each append, and refuses as many as it was told to."""

    def __init__(self) -> None:
        super().__init__()
        self.full = 0
        self.posts: list[list[str]] = []

    def append(self, batch: Sequence[Message]) -> Future[None]:
        if self.full:
            self.full -= 1
            raise Unavailable("the log is full")
        self.posts.append([decode(message.body).id for message in batch])
        return super().append(batch)


class Api:
    """The signals API over such a bus."""

    def __init__(self, bus: FickleBus, url: str) -> None:
        self.bus = bus
        self.url = url


@pytest.fixture(scope="module")
def running() -> Iterator[Api]:
    bus, stop, settings = FickleBus(), threading.Event(), IngestSettings(port=free_port())
    thread = threading.Thread(
        target=run,
        kwargs={
            "bus": bus,
            "keys": KEYS,
            "definitions": StaticDefinitions(METRICS),
            "targets": INTENTS.keys(),
            "settings": settings,
            "stop": stop,
        },
    )
    thread.start()
    url = f"http://127.0.0.1:{settings.port}"
    until(lambda: answers(f"{url}/readyz"), "ingest answers")
    yield Api(bus, url)
    stop.set()
    thread.join()


@pytest.fixture
def api(running: Api) -> Api:
    running.bus.full = 0
    running.bus.posts.clear()
    return running


def event(id_: int) -> dict[str, object]:
    """Feedback; that with an odd id has a value that no boolean has."""
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    about = {"kind": "business", "name": "copied", "time": at, "request_id": request_id(1)}
    return {"id": str(id_), **about, "value": 0.5 if id_ % 2 else 1}


def posted(api: Api, folder: Path, body: str, *words: str, key: str = "shop") -> Done:
    secret, file = folder / "some.key", folder / "events"
    secret.write_text(key)
    file.write_text(body)
    command = ("signals", "post", str(file), "--key", str(secret), "--url", api.url, *words)
    return Trimtab(folder)(*command)


def lines(*ids: int) -> str:
    return "".join(json.dumps(event(id_)) + "\n" for id_ in ids)


def test_a_large_file_goes_in_bounded_posts_and_refused_lines_are_named(
    api: Api, tmp_path: Path
) -> None:
    body = lines(0, 2, 4) + "\n" + lines(5, 6)
    done = posted(api, tmp_path, body, "--batch", "2", "--json")
    assert done.code == 1
    assert api.bus.posts == [["0", "2"], ["4"], ["6"]]
    told = done.json
    assert (told["posts"], told["accepted"], told["refused"]) == (3, 4, 1)
    assert [(one["number"], one["id"], one["field"]) for one in told["refusals"]] == [
        (5, "5", "value")
    ]
    again = posted(api, tmp_path, body)
    assert "4 accepted, 4 of them seen before" in again.out
    assert "event 5 (5): not a boolean; field: value; allowed: boolean" in again.out


def test_a_full_api_is_asked_again_after_as_long_as_it_said(api: Api, tmp_path: Path) -> None:
    api.bus.full = 1
    done = posted(api, tmp_path, lines(10, 12))
    assert (done.code, done.out) == (0, "2 accepted, 0 of them seen before\n")
    assert api.bus.posts == [["10", "12"]]


def test_a_key_with_a_rate_is_waited_for(api: Api, tmp_path: Path) -> None:
    done = posted(api, tmp_path, lines(20, 22, 24), "--batch", "2", key="slow")
    assert done.code == 0, done.err
    assert api.bus.posts == [["20", "22"], ["24"]]


def test_an_api_that_stays_full_is_given_up_saying_how_far_it_came(
    api: Api, tmp_path: Path
) -> None:
    api.bus.full = 1_000_000
    away = posted(api, tmp_path, lines(30, 32), "--retry-s", "0.2")
    assert away.code == 3
    assert "0 events before number 1 were accepted: post the same again" in away.err
    api.bus.full = 0
    assert posted(api, tmp_path, lines(30, 32)).code == 0


def test_a_file_that_is_refused_altogether_fails(api: Api, tmp_path: Path) -> None:
    assert posted(api, tmp_path, lines(1, 3)).code == 2
    missing = Trimtab(tmp_path)("signals", "post", "nowhere", "--key", str(tmp_path / "some.key"))
    assert missing.code == 2
    assert "cannot read nowhere" in missing.err


def test_an_array_over_many_lines_and_cloud_events_are_posted_as_what_they_are(
    api: Api, tmp_path: Path
) -> None:
    array = json.dumps([event(40), event(42)], indent=2)
    assert posted(api, tmp_path, array).code == 0
    plain = event(44)
    about = {name: plain[name] for name in ("request_id", "value")}
    cloud = {"specversion": "1.0", "source": "shop", "time": plain["time"], "data": about}
    cloud |= {"id": "46", "type": "trimtab.business.copied"}
    assert posted(api, tmp_path, lines(44) + json.dumps(cloud) + "\n").code == 0
    assert [len(post) for post in api.bus.posts] == [2, 1, 1]


@pytest.mark.parametrize("body", [b"", b"\n \n", b"[1, 2", b"nonsense\nmore"])
def test_what_is_no_json_is_refused_before_it_is_posted(body: bytes) -> None:
    with pytest.raises(Rejected):
        list(documents(io.BytesIO(body)))


def test_parts_keep_to_their_bounds_and_lose_nothing() -> None:
    source = io.BytesIO(lines(*range(100)).encode())
    found = list(parts(documents(source), max_bytes=300, max_events=7))
    assert [number for part in found for number in part.numbers] == list(range(1, 101))
    assert max(len(part.body) for part in found) <= 300
    assert max(len(part.numbers) for part in found) <= 7

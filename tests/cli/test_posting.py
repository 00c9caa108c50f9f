"""Files of events, posted in parts to a signals API that is full now and then."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from controller.cli.posting import documents, parts
from signals.errors import Rejected
from tests.cli.running import Done, Trimtab

EVENT = {"id": "1", "kind": "business", "name": "thumbs", "value": 1, "request_id": "chat.0"}


class Api(ThreadingHTTPServer):
    """Takes each event whose id is even, and answers 503 as often as it was told to."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.full = 0
        self.fast = 0
        self.posts: list[tuple[str, list[str]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Answers(BaseHTTPRequestHandler):
    server: Api

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        media = self.headers["Content-Type"]
        if self.server.full:
            self.server.full -= 1
            self._answer(503, {"detail": "full"}, {"Retry-After": "0"})
            return
        if self.server.fast:
            self.server.fast -= 1
            self._answer(429, {"detail": "too fast"}, {"Retry-After": "0"})
            return
        lines = body.split(b"\n") if "ndjson" in media else _array(body)
        ids = [json.loads(line)["id"] for line in lines]
        self.server.posts.append((media, ids))
        refused = [
            {"index": index, "id": id_, "reason": "odd", "field": "id", "allowed": "even"}
            for index, id_ in enumerate(ids)
            if int(id_) % 2
        ]
        accepted = len(ids) - len(refused)
        answer = {"accepted": accepted, "duplicates": 0, "refused": refused}
        self._answer(202 if accepted else 422, answer, {})

    def _answer(self, status: int, body: object, headers: dict[str, str]) -> None:
        encoded = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(encoded)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(encoded)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def _array(body: bytes) -> list[bytes]:
    return [json.dumps(one).encode() for one in json.loads(body)]


@pytest.fixture
def api() -> Iterator[Api]:
    server = Api()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def posted(api: Api, folder: Path, body: str, *words: str) -> Done:
    key, file = folder / "shop.key", folder / "events"
    key.write_text("k")
    file.write_text(body)
    command = ("signals", "post", str(file), "--key", str(key), "--url", api.url, *words)
    return Trimtab(folder)(*command)


def lines(*ids: int) -> str:
    return "".join(json.dumps(EVENT | {"id": str(id_)}) + "\n" for id_ in ids)


def test_a_large_file_goes_in_bounded_posts_and_refused_lines_are_named(
    api: Api, tmp_path: Path
) -> None:
    body = lines(0, 2, 4) + "\n" + lines(5, 6)
    done = posted(api, tmp_path, body, "--batch", "2", "--json")
    assert done.code == 1
    assert [ids for _, ids in api.posts] == [["0", "2"], ["4", "5"], ["6"]]
    told = done.json
    assert (told["posts"], told["accepted"], told["refused"]) == (3, 4, 1)
    assert [(one["number"], one["id"], one["field"]) for one in told["refusals"]] == [
        (5, "5", "id")
    ]
    assert "event 5 (5): odd; field: id; allowed: even" in posted(api, tmp_path, body).out


def test_a_full_api_is_asked_again_and_an_absent_one_named(api: Api, tmp_path: Path) -> None:
    api.full, api.fast = 3, 2
    done = posted(api, tmp_path, lines(0, 2))
    assert (done.code, done.out) == (0, "2 accepted, 0 of them seen before\n")
    api.full = 1_000_000
    away = posted(api, tmp_path, lines(2, 4), "--retry-s", "0.2")
    assert away.code == 3
    assert "0 events before number 1 were accepted: post the same again" in away.err


def test_a_file_that_is_refused_altogether_fails(api: Api, tmp_path: Path) -> None:
    assert posted(api, tmp_path, lines(1, 3)).code == 2
    missing = Trimtab(tmp_path)("signals", "post", "nowhere", "--key", str(tmp_path / "shop.key"))
    assert missing.code == 2
    assert "cannot read nowhere" in missing.err


def test_an_array_over_many_lines_and_cloud_events_are_posted_as_what_they_are(
    api: Api, tmp_path: Path
) -> None:
    array = json.dumps([EVENT | {"id": "2"}, EVENT | {"id": "4"}], indent=2)
    assert posted(api, tmp_path, array).code == 0
    cloud = json.dumps({"specversion": "1.0", "id": "6", "type": "x", "source": "y"}) + "\n"
    assert posted(api, tmp_path, lines(0) + cloud + cloud).code == 0
    assert api.posts == [
        ("application/json", ["2", "4"]),
        ("application/x-ndjson", ["0"]),
        ("application/cloudevents-batch+json", ["6", "6"]),
    ]


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

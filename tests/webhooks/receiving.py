"""A receiver of webhooks: a real HTTP server on a thread, which answers as the test says."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

from tests.cli.running import until
from tests.signals.processes import free_port


class Post:
    """What came, and in which order."""

    def __init__(self, path: str, headers: dict[str, str], body: bytes) -> None:
        self.path = path
        self.headers = headers
        self.body = body

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


Answer = tuple[int, dict[str, str]]


class Receiver:
    """``answer``: what each post gets, by how many came before it. ``hold``: none is answered while
    it is set."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.posts: list[Post] = []
        self.answer: Callable[[Post, int], Answer] = lambda post, number: (204, {})
        self.go_on = threading.Event()
        self.go_on.set()
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def events(self) -> list[str]:
        return [post.json["event"] for post in self.posts]

    @property
    def ids(self) -> list[str]:
        return [post.headers["webhook-id"] for post in self.posts]

    def wait_for(self, count: int, *, within_s: float = 10) -> None:
        until(lambda: len(self.posts) >= count, f"{count} posts: {self.ids}", within_s=within_s)

    def take(self, post: Post) -> Answer:
        with self._lock:
            number = len(self.posts)
            self.posts.append(post)
        self.go_on.wait(10)
        return self.answer(post, number)


@contextmanager
def receiving(port: int | None = None) -> Iterator[Receiver]:
    """One receiver, on a free port unless it comes back to its own."""
    receiver = Receiver(port or free_port())

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["content-length"])
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, more = receiver.take(Post(self.path, headers, self.rfile.read(length)))
            self.send_response(status)
            for name, value in {**more, "content-length": "0"}.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", receiver.port), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield receiver
    finally:
        receiver.go_on.set()
        server.shutdown()
        server.server_close()
        thread.join()

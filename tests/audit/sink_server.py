"""A server that takes heads by POST, and fails as it is told to."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class HeadServer:
    """``fail``: so many posts are answered 503 before one is taken. ``mute``: no GET."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.keys: list[str | None] = []
        self.fail = 0
        self.mute = False
        self.posts = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.posts += 1
                outer.keys.append(self.headers.get("Authorization"))
                if outer.fail:
                    outer.fail -= 1
                    self._answer(503, b"")
                    return
                outer.lines += body.splitlines()
                self._answer(204, b"")

            def do_GET(self) -> None:
                if outer.mute:
                    self._answer(405, b"")
                else:
                    self._answer(200, b"".join(line + b"\n" for line in outer.lines))

            def log_message(self, format: str, *args: object) -> None:
                return

            def _answer(self, code: int, body: bytes) -> None:
                self.send_response(code)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/heads"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

"""A thin client of the control plane: one request, one answer, our own errors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import msgspec

from signals.errors import Conflict, Denied, NotFound, Rejected, Unavailable

TIMEOUT_S = 30.0
VISIBLE = re.compile(rb"[!-~]+")
KINDS: Mapping[int, type[Rejected]] = {404: NotFound, 409: Conflict}


class Client:
    """Calls with one key. Raises ``Rejected`` (and below) for 4xx, ``Unavailable`` for the rest."""

    def __init__(self, url: str, key: str, *, timeout_s: float = TIMEOUT_S) -> None:
        self.url = url
        headers = {"Authorization": f"Bearer {key}"}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout_s, trust_env=False)

    def get(self, path: str, **query: object) -> Any:
        """The decoded answer. Query values that are None are left out."""
        return self._call("GET", path, params=_given(query))

    def post(
        self,
        path: str,
        body: object = None,
        *,
        content_type: str | None = None,
        partly: bool = False,
    ) -> Any:
        """``body`` is sent as JSON, bytes as they are.

        ``partly``: a problem that lists what was ``refused``, part by part, is an answer too.
        """
        return self._call("POST", path, partly=partly, **_sent(body, content_type))

    def patch(self, path: str, body: object) -> Any:
        """``body`` is sent as JSON."""
        return self._call("PATCH", path, **_sent(body, None))

    def put(self, path: str, body: object) -> Any:
        """``body`` is sent as JSON."""
        return self._call("PUT", path, **_sent(body, None))

    def delete(self, path: str, body: object = None) -> Any:
        """None when the answer is empty. ``body`` is sent as JSON."""
        return self._call("DELETE", path, **_sent(body, None))

    def lines(self, path: str, *, accept: str = "*/*", **query: object) -> Iterator[str]:
        """The lines of an answer that has lines, as they come. ``accept``: NDJSON or CSV."""
        asked = {"Accept": accept}
        try:
            with self._http.stream("GET", path, params=_given(query), headers=asked) as answer:
                if answer.is_error:
                    answer.read()
                    raise _refusal(answer)
                yield from _lines(answer.iter_bytes())
        except httpx.HTTPError as error:
            raise self._away(error) from error

    def close(self) -> None:
        """Let go of the connection."""
        self._http.close()

    def _call(self, method: str, path: str, *, partly: bool = False, **how: Any) -> Any:
        try:
            answer = self._http.request(method, path, **how)
        except httpx.HTTPError as error:
            raise self._away(error) from error
        if answer.is_error and not (partly and "refused" in _problem(answer)):
            raise _refusal(answer)
        return msgspec.json.decode(answer.content) if answer.content else None

    def _away(self, error: httpx.HTTPError) -> Unavailable:
        why = str(error) or type(error).__name__
        return Unavailable(f"{self.url} does not answer ({why}); is `trimtab up` running?")


def _lines(pieces: Iterable[bytes]) -> Iterator[str]:
    """Lines end with a line feed and with nothing else: JSON holds U+2028 and its kin as they are.

    >>> list(_lines(["a\\u2028b\\n".encode(), b"c\\r", b"\\n"]))
    ['a\\u2028b', 'c']
    """
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line.removesuffix(b"\r").decode()
    if rest:
        yield rest.decode()


def read_key(path: Path) -> str:
    """The bearer key in a file. Raises ``Rejected``."""
    try:
        key = path.read_bytes().strip()
    except OSError as error:
        raise Rejected(
            f"no key at {path} ({error.strerror}); `trimtab init` makes one,"
            " or name another with --key-file or TRIMTAB_KEY_FILE"
        ) from error
    if not VISIBLE.fullmatch(key):
        raise Rejected(f"{path} holds no key", allowed="one line of visible ASCII characters")
    return key.decode("ascii")


def _given(query: Mapping[str, object]) -> dict[str, Any]:
    plain = {True: "true", False: "false"}
    given = {name: value for name, value in query.items() if value is not None}
    return {n: plain[v] if isinstance(v, bool) else v for n, v in given.items()}


def _sent(body: object, content_type: str | None) -> dict[str, Any]:
    if body is None:
        return {}
    content = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return {"content": content, "headers": {"Content-Type": content_type or "application/json"}}


def _refusal(answer: httpx.Response) -> Rejected | Unavailable:
    """Our error for an RFC 9457 answer; for one that is none, its text."""
    problem = _problem(answer)
    detail = str(problem.get("detail", answer.reason_phrase))
    if answer.status_code >= 500 or answer.status_code == 429:
        asked = answer.headers.get("retry-after", "")
        return Unavailable(detail, retry_after_s=float(asked) if asked.isdigit() else 1.0)
    if answer.status_code in (401, 403):
        return Denied(detail, authenticated=answer.status_code == 403)
    kind = KINDS.get(answer.status_code, Rejected)
    refused = {name: problem.get(name) for name in ("field", "value", "allowed")}
    return kind(detail, **refused)


def _problem(answer: httpx.Response) -> dict[str, Any]:
    try:
        return msgspec.json.decode(answer.content, type=dict[str, Any])
    except msgspec.MsgspecError:
        return {"detail": answer.text[:200] or answer.reason_phrase}

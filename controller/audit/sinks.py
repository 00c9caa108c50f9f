"""Where signed heads go: a file that only grows, or a server that takes them by POST.

The place should be out of reach for whoever administers the database: another machine, a log
collector, object storage with a retention lock. What is sent is one line; what was sent stays.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

import httpx
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from controller.audit.settings import AuditSettings
from controller.layout import Layout
from controller.processes.secret_files import read_secret
from controller.webhooks.settings import shown_url
from signals.errors import Rejected, Unavailable

TAIL_BYTES: Final = 65_536
MAX_BYTES: Final = 1 << 30
NDJSON: Final = "application/x-ndjson"
BEARER: Final = re.compile(r"[\x21-\x7e]{1,4096}")


class Sink(Protocol):
    """A place outside. ``where``: its name, without secrets; ``cheap``: reading back costs little.

    ``warning``: why this place does not count as outside; None when it may.
    """

    where: str
    cheap: bool
    warning: str | None

    def append(self, line: bytes) -> None:
        """Bring one line there, durably. Raises ``Unavailable``."""

    def tail(self) -> list[bytes] | None:
        """The newest lines; None where the place can't be read back. Raises ``Unavailable``."""

    def lines(self) -> Iterator[bytes] | None:
        """Every line; None where the place can't be read back. Raises ``Unavailable``."""

    def close(self) -> None:
        """Let go of it."""


class FileSink:
    """A file of JSON lines, fsynced at each."""

    cheap = True

    def __init__(self, path: Path, *, warning: str | None) -> None:
        self.where = str(path)
        self.warning = warning
        self._path = path

    def append(self, line: bytes) -> None:
        """A line that a crash has torn is ended first; readers pass over it."""
        try:
            with self._path.open("ab+") as file:
                if file.seek(0, os.SEEK_END):
                    file.seek(-1, os.SEEK_END)
                    torn = file.read(1) != b"\n"
                    line = b"\n" + line if torn else line
                file.write(line + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise Unavailable(f"the audit's sink can't be written: {error}") from error

    def tail(self) -> list[bytes]:
        """The whole lines among the last 64 KiB."""
        try:
            with self._path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - TAIL_BYTES))
                read = file.read().split(b"\n")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise Unavailable(f"the audit's sink can't be read: {error}") from error
        return read[1:] if size > TAIL_BYTES else read

    def lines(self) -> Iterator[bytes]:
        """From the beginning."""
        try:
            with self._path.open("rb") as file:
                yield from file
        except FileNotFoundError:
            return
        except OSError as error:
            raise Unavailable(f"the audit's sink can't be read: {error}") from error

    def close(self) -> None:
        """Nothing is open between calls."""


class HttpSink:
    """A server: ``POST`` takes a line, ``GET`` may answer the lines it has (206 for the last)."""

    cheap = False

    def __init__(
        self, url: str, *, key: str | None, settings: AuditSettings, warning: str | None
    ) -> None:
        self.where = shown_url(url)
        self.warning = warning
        self._url = url
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._http = httpx.Client(headers=headers, timeout=settings.sink_timeout_s, trust_env=False)
        self._retrying = Retrying(
            stop=stop_after_attempt(settings.sink_attempts),
            wait=wait_exponential(multiplier=0.1, max=2.0),
            retry=retry_if_exception_type(Unavailable),
            reraise=True,
        )

    def append(self, line: bytes) -> None:
        """Tried a few times; after that the next head is the one to bring."""
        self._retrying(self._post, line)

    def tail(self) -> list[bytes] | None:
        """The last 64 KiB, if the server can answer a part; else all it answers."""
        read = self._get({"Range": f"bytes=-{TAIL_BYTES}"})
        if read is None:
            return None
        status, body = read
        return body.split(b"\n")[1 if status == 206 and len(body) >= TAIL_BYTES else 0 :]

    def lines(self) -> Iterator[bytes] | None:
        """All that the server answers."""
        read = self._get({})
        return None if read is None else iter(read[1].split(b"\n"))

    def close(self) -> None:
        """Let go of the connection."""
        self._http.close()

    def _post(self, line: bytes) -> None:
        try:
            answer = self._http.post(
                self._url, content=line + b"\n", headers={"Content-Type": NDJSON}
            )
        except httpx.HTTPError as error:
            raise Unavailable(f"the audit's sink does not answer: {error}") from error
        if not answer.is_success:
            raise Unavailable(f"the audit's sink answered {answer.status_code}")

    def _get(self, headers: dict[str, str]) -> tuple[int, bytes] | None:
        body = bytearray()
        try:
            with self._http.stream("GET", self._url, headers=headers) as answer:
                if answer.status_code in (401, 403, 404, 405, 501):
                    return None
                if not answer.is_success:
                    raise Unavailable(f"the audit's sink answered {answer.status_code}")
                for piece in answer.iter_bytes():
                    body += piece
                    if len(body) > MAX_BYTES:
                        raise Unavailable(f"the audit's sink answers over {MAX_BYTES} bytes")
        except httpx.HTTPError as error:
            raise Unavailable(f"the audit's sink does not answer: {error}") from error
        return answer.status_code, bytes(body)


def open_sink(settings: AuditSettings, layout: Layout) -> Sink:
    """The configured sink. Raises ``Rejected`` naming the setting."""
    if settings.sink is None:
        return FileSink(layout.audit_heads, warning=_beside(layout.audit_heads, layout.root))
    if settings.sink.partition("://")[0].lower() in ("http", "https"):
        _check_url(settings.sink)
        key_file = settings.sink_key_file
        return HttpSink(
            settings.sink,
            key=None if key_file is None else _key(key_file),
            settings=settings,
            warning=_on_this_machine(settings.sink),
        )
    path = Path(settings.sink.removeprefix("file://")).expanduser()
    if not path.parent.is_dir():
        raise Rejected(
            f"the folder of audit.sink is not there: {path.parent}",
            field="audit.sink",
            value=settings.sink,
            allowed="a path in an existing folder, or an http(s) URL",
        )
    return FileSink(path, warning=_beside(path, layout.root))


def _key(path: Path) -> str:
    try:
        key = read_secret(path)
    except (OSError, UnicodeDecodeError) as error:
        raise Rejected(
            f"audit.sink_key_file can't be read: {type(error).__name__}",
            field="audit.sink_key_file",
        ) from error
    if BEARER.fullmatch(key) is None:
        raise Rejected(
            "audit.sink_key_file holds no bearer key",
            field="audit.sink_key_file",
            allowed="one line of visible ASCII characters",
        )
    return key


def _check_url(url: str) -> None:
    """Raise ``Rejected``, without a word of the URL: it may carry a secret."""
    try:
        parts = urlsplit(url)
        usable = bool(httpx.URL(url).host and parts.hostname and parts.port != 0)
    except (httpx.InvalidURL, ValueError):
        usable = False
    if not usable:
        raise Rejected("audit.sink is no URL", field="audit.sink", allowed="http(s)://HOST/…")


def _beside(path: Path, root: Path) -> str | None:
    """Why a file is not outside: in the state directory, or on its disk."""
    root, folder = root.absolute().resolve(), path.absolute().parent.resolve()
    if folder.is_relative_to(root) or root.is_relative_to(folder):
        return f"the audit's heads go to {path}, beside the store: who owns one owns both"
    try:
        same = os.stat(folder).st_dev == os.stat(root).st_dev
    except OSError:
        return None
    return f"the audit's heads go to {path}, on the store's own disk" if same else None


def _on_this_machine(url: str) -> str | None:
    host = urlsplit(url).hostname or ""
    try:
        here = ipaddress.ip_address(host).is_loopback
    except ValueError:
        here = host == "localhost"
    return f"the audit's heads go to {host}, which is this machine" if here else None

"""The actuator over HTTP: ``GET`` and ``PATCH /v1/runtime_config`` of one engine."""

from __future__ import annotations

import ssl
from functools import cache
from types import TracebackType
from typing import Self

import httpx
import msgspec

from policies.runtime_config import CONTROL_PATH, Patch, RuntimeConfig
from signals.errors import Conflict, Denied, Rejected, Unavailable


class HttpActuator:
    """An ``Actuator`` for an engine's control listener. Keeps its connection; thread-safe.

    ``timeout_s`` bounds each phase of a call (connect, send, wait, receive), so no call takes much
    longer. See ``policies.actuator`` for what is raised; ``Denied`` when the key is not the
    engine's. Proxies of the environment are not used: the key is for the engine alone.
    """

    def __init__(self, url: str, key: str, *, timeout_s: float = 3.0) -> None:
        self._client = httpx.Client(
            base_url=url,
            timeout=timeout_s,
            trust_env=False,
            verify=_certificates(),
            headers={"Authorization": f"Bearer {key}"},
            limits=httpx.Limits(max_connections=4, max_keepalive_connections=1),
        )

    def read(self, *, after_seq: int = -1) -> RuntimeConfig:
        """What is in force, and the changes numbered above ``after_seq``."""
        return self._call("GET", params={"after": after_seq})

    def patch(self, patch: Patch) -> RuntimeConfig:
        """Apply a change; the answer shows the values observed after application."""
        return self._call("PATCH", content=msgspec.json.encode(patch))

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _call(
        self, method: str, *, params: dict[str, int] | None = None, content: bytes | None = None
    ) -> RuntimeConfig:
        try:
            answer = self._client.request(method, CONTROL_PATH, params=params, content=content)
        except httpx.HTTPError as failed:
            unknown = "; it may have been applied, read back" if method == "PATCH" else ""
            raise Unavailable(f"engine: {type(failed).__name__}: {failed}{unknown}") from failed
        if answer.status_code >= 400:
            raise _refusal(answer)
        try:
            return msgspec.json.decode(answer.content, type=RuntimeConfig)
        except msgspec.MsgspecError as wrong:
            raise Unavailable(f"engine: an answer that is not a runtime config: {wrong}") from wrong


@cache
def _certificates() -> ssl.SSLContext:
    """Loaded once for all engines: it takes longer than a call, and there may be 64 of them."""
    return httpx.create_ssl_context(trust_env=False)


class _Problem(msgspec.Struct, frozen=True):
    """The members of an RFC 9457 document that our engines send."""

    detail: str = ""
    field: str | None = None
    value: object = None
    allowed: object = None


def _refusal(answer: httpx.Response) -> Rejected | Unavailable:
    try:
        problem = msgspec.json.decode(answer.content, type=_Problem)
    except msgspec.MsgspecError:
        problem = _Problem(detail=answer.text[:500])
    detail = problem.detail or f"the engine answered {answer.status_code}"
    if answer.status_code in (401, 403):
        return Denied(detail, authenticated=answer.status_code == 403)
    if answer.status_code >= 500 or answer.status_code == 429:
        return Unavailable(f"engine: {detail}")
    kind = Conflict if answer.status_code == 409 else Rejected
    return kind(detail, field=problem.field, value=problem.value, allowed=problem.allowed)

"""The control plane as its users see it: HTTP, a bearer key, JSON."""

from __future__ import annotations

from typing import Any

import httpx

TIMEOUT_S = 15.0


class RefusedError(Exception):
    """The control plane said no; carries the status and its words."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(f"{status}: {words}")
        self.status = status


class Caller:
    """One principal's view of one server. Raises ``RefusedError`` for 4xx and 5xx."""

    def __init__(self, url: str, key: str, *, name: str) -> None:
        self.url = url
        self.key = key
        self.name = name
        headers = {"Authorization": f"Bearer {key}"}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=TIMEOUT_S, trust_env=False)

    def get(self, path: str, **query: Any) -> Any:
        """A decoded JSON answer."""
        return self._checked(self._http.get(path, params=query)).json()

    def lines(self, path: str, **query: Any) -> list[str]:
        """The lines of an NDJSON answer."""
        return self._checked(self._http.get(path, params=query)).text.splitlines()

    def post(self, path: str, body: Any) -> Any:
        """A decoded JSON answer."""
        return self._checked(self._http.post(path, json=body)).json()

    def patch(self, path: str, body: Any) -> Any:
        """A decoded JSON answer."""
        return self._checked(self._http.patch(path, json=body)).json()

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def _checked(self, answer: httpx.Response) -> httpx.Response:
        if answer.is_error:
            raise RefusedError(answer.status_code, answer.text[:500])
        return answer

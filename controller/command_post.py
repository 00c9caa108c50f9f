"""The way of an operator's command to the feature stage: through ingest, under serve's own key.

Nobody else's key may post commands, so what is on the bus as one was authorised here first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import httpx
import msgspec
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random

from signals.codec import NDJSON
from signals.errors import Rejected, Unavailable
from signals.events import MICROS, Signal

ATTEMPTS = 2
"""One more when the first was not answered: commands carry ids, a second copy counts once."""
PAUSE_S = 0.2


class HttpCommands:
    """See ``controller.feedback.Commands``. Thread-safe."""

    def __init__(self, url: str, key: str, *, timeout_s: float) -> None:
        headers = {"Authorization": f"Bearer {key}"}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout_s, trust_env=False)

    def check(self) -> None:
        """See ``Commands.check``."""
        self._ask("GET", "/readyz")

    def post(self, commands: Sequence[Signal]) -> None:
        """See ``Commands.post``."""
        body = b"\n".join(msgspec.json.encode(_posted(command)) for command in commands)
        retrying = Retrying(
            retry=retry_if_exception_type(Unavailable),
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_random(0, PAUSE_S),
            reraise=True,
        )
        answer = retrying(
            self._ask, "POST", "/v1/signals", content=body, headers={"Content-Type": NDJSON[0]}
        )
        refused = answer.get("refused", [])
        if refused:
            raise Rejected(f"ingest refused {len(refused)} commands: {refused[0].get('reason')}")

    def close(self) -> None:
        """Let go of the connection."""
        self._http.close()

    def _ask(self, method: str, path: str, **how: Any) -> Mapping[str, Any]:
        try:
            answer = self._http.request(method, path, **how)
            if answer.status_code >= 500:
                raise Unavailable(f"ingest takes no commands now: it answers {answer.status_code}")
            found = msgspec.json.decode(answer.content, type=dict[str, Any])
        except httpx.HTTPError as error:
            why = str(error) or type(error).__name__
            raise Unavailable(f"ingest does not answer ({why})") from error
        except msgspec.MsgspecError as error:
            raise Unavailable("ingest answers, but not as itself") from error
        if answer.is_error and "refused" not in found:
            raise Unavailable(f"ingest does not take serve's key: {found.get('detail')}")
        return found


def _posted(command: Signal) -> dict[str, Any]:
    """The event as a producer posts one."""
    return {
        "id": command.id,
        "kind": command.kind,
        "name": command.name,
        "target": command.target,
        "time": datetime.fromtimestamp(command.time_us / MICROS, UTC).isoformat(),
        "command": command.command,
    }

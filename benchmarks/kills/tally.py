"""The load generator's own books: what it made, what was acknowledged, what it gave up on.

Nothing here comes from the product. Values are whole micro-units from the start, so that sums can
be compared to the last digit.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import Final, Literal

from msgspec import Struct

from signals.events import MICROS

State = Literal["acknowledged", "unknown"]
"""Unknown: its client gave up without an answer. It may be there once, or not at all."""

COUNT: Final = "pieces"
FLOAT: Final = "thumbs"
METRICS: Final = {
    COUNT: {"type": "count", "low": 0, "high": 1_000_000, "attribution_s": 3600},
    FLOAT: {"type": "float", "low": -1, "high": 1, "attribution_s": 3600},
}
"""Values of a count add up, so every event of it weighs; a float counts once per request."""


class Feedback(Struct, frozen=True, kw_only=True):
    """One event about one request."""

    id: str
    producer: str
    metric: str
    target: str
    request_id: str
    micros: int

    @property
    def value(self) -> float:
        """As it is posted."""
        return self.micros / MICROS


class Books(Struct, frozen=True):
    """A copy of the tally at one moment."""

    requests: dict[str, str]
    feedback: dict[str, Feedback]
    states: dict[str, State]
    conflicts: frozenset[str]
    records: int

    @property
    def acknowledged(self) -> int:
        """Events: records and feedback."""
        return self.records + sum(state == "acknowledged" for state in self.states.values())


class Tally:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: dict[str, str] = {}
        self._feedback: dict[str, Feedback] = {}
        self._states: dict[str, State] = {}
        self._conflicts: set[str] = set()
        self._open: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
        self._records = 0

    def ended(self, target: str, request_ids: list[tuple[str, int]], records: int) -> None:
        """Requests whose records were acknowledged: (id, number)."""
        with self._lock:
            self._records += records
            for request_id, number in request_ids:
                self._requests[request_id] = target
                self._open[target].append((request_id, number))

    def known(self, target: str) -> list[tuple[str, int]]:
        """Requests that ended so far, oldest first."""
        with self._lock:
            return list(self._open[target])

    def posted(self, events: list[Feedback], state: State) -> None:
        """What became of feedback."""
        with self._lock:
            for event in events:
                self._feedback[event.id] = event
                self._states[event.id] = state

    def conflicting(self, event_id: str) -> None:
        """The same id was acknowledged again with another value."""
        with self._lock:
            self._conflicts.add(event_id)

    def books(self) -> Books:
        """What is to be found."""
        with self._lock:
            return Books(
                dict(self._requests),
                dict(self._feedback),
                dict(self._states),
                frozenset(self._conflicts),
                self._records,
            )

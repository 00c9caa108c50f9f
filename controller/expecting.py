"""What a caller had seen when he decided to act: checked inside the transaction that acts.

``If-Match`` names a state. Between asking for the state and writing, somebody else may write; so
the question is asked again by the store itself, in the same transaction, before the first write of
the call. Whoever acts (``Operations`` and others) does not know of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Final

from controller.store.port import Store, Tx
from signals.errors import Stale


class Expectation:
    """One call's. ``state`` reads what is there now; ``expected`` are the states that will do."""

    def __init__(self, expected: Sequence[str], state: Callable[[Tx], str]) -> None:
        self._expected = tuple(expected)
        self._state = state
        self._met = False

    def check(self, tx: Tx) -> None:
        """Raise ``Stale`` unless it is met; once it was met inside a write, for good."""
        found = self._state(tx)
        if found not in self._expected:
            raise Stale(
                "this is not what is there any more; look again",
                field="If-Match",
                value=", ".join(self._expected),
                allowed=found,
            )

    def check_once(self, tx: Tx) -> None:
        """As ``check``, before the first write only: the call's own writes move the state on."""
        if not self._met:
            self.check(tx)
            self._met = True


EXPECTED: Final[ContextVar[Expectation | None]] = ContextVar("expected", default=None)
"""Set by the shell for the call at hand."""


class ExpectingStore:
    """A store whose first write of a call checks what the call expects. See ``Store``."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def write(self) -> AbstractContextManager[Tx]:
        """As the store's own. Raises ``Stale`` before anything was written."""
        expectation = EXPECTED.get()
        return self._store.write() if expectation is None else self._expecting(expectation)

    def read(self) -> AbstractContextManager[Tx]:
        """As the store's own."""
        return self._store.read()

    @property
    def writes(self) -> int:
        """As the store's own."""
        return self._store.writes

    def close(self) -> None:
        """Idempotent."""
        self._store.close()

    @contextmanager
    def _expecting(self, expectation: Expectation) -> Iterator[Tx]:
        with self._store.write() as tx:
            expectation.check_once(tx)
            yield tx

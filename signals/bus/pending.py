"""What waits for the log's writer thread, each with the future that its caller holds."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

from signals.bus.port import Message
from signals.errors import Unavailable

T = TypeVar("T")


class Pending(Generic[T]):
    """Work with an answer that comes exactly once, whatever its caller does meanwhile."""

    def __init__(self) -> None:
        self.done: Future[T] = Future()
        # A running future can't be cancelled: a client that hangs up must not take the answer away
        # under the writer, who has the events in a transaction by then.
        self.done.set_running_or_notify_cancel()

    def refuse(self, unavailable: Unavailable) -> None:
        """Answer that it was not done, unless it was answered already."""
        if not self.done.done():
            self.done.set_exception(unavailable)


class Append(Pending[None]):
    """A batch waiting for its commit."""

    def __init__(self, batch: Sequence[Message]) -> None:
        super().__init__()
        self.batch = batch


class Close:
    """The last thing the writer takes from its queue."""


Work = Append | Close

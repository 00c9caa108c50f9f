"""What waits for the log's writer thread, each with the future that its caller holds."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future

from signals.bus.frames import Run
from signals.errors import Unavailable


class Append:
    """A batch waiting for its commit: an answer that comes once, whatever its caller does."""

    def __init__(self, runs: Sequence[Run], events: int) -> None:
        self.runs = runs
        self.events = events
        self.done: Future[None] = Future()
        # A running future can't be cancelled: a client that hangs up must not take the answer away
        # under the writer, who has the events in a transaction by then.
        self.done.set_running_or_notify_cancel()

    def refuse(self, unavailable: Unavailable) -> None:
        """Answer that it was not done, unless it was answered already."""
        if not self.done.done():
            self.done.set_exception(unavailable)


class Close:
    """The last thing the writer takes from its queue."""


Work = Append | Close
"""What the queue holds."""

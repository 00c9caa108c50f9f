"""Work that may hang, on a thread of its own, waited for no longer than asked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from signals.errors import Unavailable

Found = TypeVar("Found")


class Bounded(Generic[Found]):
    """One piece of work at a time. While one hangs the next is not begun: ``Unavailable`` at once.

    The threads are daemons: what hangs for ever does not keep the process from ending.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._under_way: Future[Found] | None = None

    def ask(self, work: Callable[[], Found], *, within_s: float) -> Found:
        """The answer. Raises ``Unavailable`` when it is late, and whatever the work raises.

        Late work goes on: whether it came to its end is unknown.
        """
        with self._lock:
            if self._under_way is not None and not self._under_way.done():
                raise Unavailable(f"{self._name} still hangs from before")
            future: Future[Found] = Future()
            self._under_way = future
        threading.Thread(target=_run, args=(work, future), name=self._name, daemon=True).start()
        try:
            return future.result(within_s)
        except TimeoutError:
            if future.done():
                raise
            raise Unavailable(f"{self._name} did not answer within {within_s:g} s") from None


def _run(work: Callable[[], Found], future: Future[Found]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001
        # Whoever asked raises it; this thread is only where it happened.
        future.set_exception(error)

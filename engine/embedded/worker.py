"""The engine's thread: owns the core, takes requests from any thread, stops loudly.

Requests and cancellations land at step boundaries. An exception in a step is fatal: every open
request ends with ``error`` (``MEMORY_EXHAUSTED`` where that is why), ``failure`` is set,
``on_failure`` is called, later calls raise.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from engine.embedded.core import Core
from engine.embedded.sequence import OnOutput, Sequence
from engine.generation import Generation, Load, Output, QueueFull
from signals.errors import Rejected, Unavailable
from signals.events import MEMORY_EXHAUSTED

log = logging.getLogger(__name__)

OnFailure = Callable[[BaseException], None]
STOP_LIMIT_S = 30.0


class Worker:
    """Implements ``engine.generation.Generator``."""

    def __init__(
        self,
        core: Core,
        *,
        context: int,
        max_queue: int,
        idle_s: float,
        on_failure: OnFailure | None = None,
    ) -> None:
        self.failure: BaseException | None = None
        self._core = core
        self._context = context
        self._max_queue = max_queue
        self._idle_s = idle_s
        self._on_failure = on_failure
        self._changed = threading.Condition()
        self._inbox: list[Sequence] = []
        self._cancelled: list[str] = []
        self._waits = 0
        self._woken = False
        self._closing = False
        self._load = core.load()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        """Start the engine's thread."""
        self._thread.start()

    def submit(self, request: Generation, on_output: OnOutput) -> None:
        """Queue a request; ``on_output`` is called on the engine's thread and must not block.

        Raises ``Rejected`` for a prompt that cannot be run, ``QueueFull`` at the queue's bound,
        ``Unavailable`` when the engine has stopped.
        """
        self._check(request)
        with self._changed:
            self._check_alive()
            if self._waits + len(self._inbox) >= self._max_queue:
                raise QueueFull(f"{self._max_queue} requests are waiting already")
            self._inbox.append(Sequence(request, on_output))
            self._changed.notify()

    def cancel(self, request_id: str) -> None:
        """Free the request's KV blocks at the next step boundary. Unknown ids are ignored."""
        with self._changed:
            self._cancelled.append(request_id)
            self._changed.notify()

    def load(self) -> Load:
        """Where the engine stood at its last boundary."""
        return self._load

    def wake(self) -> None:
        """Make an idle engine reach its next boundary now."""
        with self._changed:
            self._woken = True
            self._changed.notify()

    def close(self) -> None:
        """Finish the present step and stop. Open requests end as cancelled."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join(STOP_LIMIT_S)
        if self._thread.is_alive():
            raise Unavailable(f"the engine's step did not end within {STOP_LIMIT_S} s")

    def _run(self) -> None:
        try:
            busy = False
            while self._receive(busy):
                busy = self._core.step() is not None
            self._end_all(lambda one: one.output(one.text.flush(), finish="cancelled"))
        except Exception as error:
            log.critical("the engine stopped", exc_info=error)
            self._fail(error)
        finally:
            self._core.close()

    def _receive(self, busy: bool) -> bool:
        """Take in what other threads left, waiting for it when idle. False: stop."""
        with self._changed:
            if not (busy or self._inbox or self._cancelled or self._woken or self._closing):
                self._changed.wait(self._idle_s)
            arrived, self._inbox = self._inbox, []
            cancelled, self._cancelled = self._cancelled, []
            self._woken = False
            for sequence in arrived:
                self._core.scheduler.enqueue(sequence)
            self._waits = self._core.scheduler.waits
        for request_id in cancelled:
            self._core.cancel(request_id)
        self._load = self._core.load()
        return not self._closing

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self.failure = error
        told = MEMORY_EXHAUSTED if out_of_memory(error) else f"engine stopped: {error}"
        self._end_all(lambda one: one.output(finish="error", error=told))
        if self._on_failure is not None:
            self._on_failure(error)

    def _end_all(self, last: Callable[[Sequence], Output]) -> None:
        """Give every open request its last output; one broken listener does not rob the others."""
        with self._changed:
            self._closing = True
            arrived, self._inbox = self._inbox, []
        for sequence in (*arrived, *self._core.scheduler.clear()):
            try:
                sequence.on_output(last(sequence))
            except Exception as error:
                log.error("listener of %s failed", sequence.request.id, exc_info=error)

    def _check_alive(self) -> None:
        if self.failure is not None:
            raise Unavailable(f"the engine has stopped: {self.failure}")
        if self._closing:
            raise Unavailable("the engine is stopping")

    def _check(self, request: Generation) -> None:
        length = len(request.prompt)
        if not 0 < length < self._context:
            raise Rejected(
                f"a prompt of {length} tokens does not fit a context of {self._context}",
                field="prompt",
                value=length,
                allowed=f"1..{self._context - 1} tokens",
            )
        if request.max_tokens < 1:
            raise Rejected(
                f"max_tokens = {request.max_tokens} is less than 1",
                field="max_tokens",
                value=request.max_tokens,
                allowed="1..",
            )


def out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, the host's or a device's (``torch.cuda.OutOfMemoryError``)."""
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"

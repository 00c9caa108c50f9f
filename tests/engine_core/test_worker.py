"""The engine's thread: bounds, boundaries, and a stop that everybody hears."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from engine.embedded.core import Core
from engine.embedded.kv import BlockPool
from engine.embedded.scheduler import Scheduler
from engine.embedded.worker import Worker
from engine.generation import Generator, Limits, Load, Output, QueueFull, StepRecord
from signals.errors import Rejected, Unavailable
from tests.engine_core.conftest import CONTEXT, Loaded
from tests.engine_core.driving import request

Chat = Callable[[str], tuple[int, ...]]
PATIENCE_S = 60.0


class Listener:
    """Collects one request's outputs and says when the last has come."""

    def __init__(self) -> None:
        self.outputs: list[Output] = []
        self.first, self.done = threading.Event(), threading.Event()

    def __call__(self, output: Output) -> None:
        self.outputs.append(output)
        self.first.set()
        if output.finish is not None:
            self.done.set()

    def last(self) -> Output:
        assert self.done.wait(PATIENCE_S)
        return self.outputs[-1]


class Running:
    """A started worker with its own model, whose boundary and steps the test can break."""

    def __init__(self, loaded: Loaded, *, cap: int = 64, max_queue: int = 4) -> None:
        self.limits = Limits(active_cap=cap, step_token_budget=128)
        self.boundaries = threading.Semaphore(0)
        self.broken: Exception | None = None
        self.failures: list[BaseException] = []
        self.ended = threading.Event()
        pool = BlockPool(total=64, slots=64, context=CONTEXT)
        self.pool = pool
        self.records: list[StepRecord] = []
        core = Core(
            model=loaded.open_model(threads=1, kv_blocks=64),
            tokenizer=loaded.tokenizer,
            scheduler=Scheduler(pool),
            boundary=self._boundary,
            on_step=self.records.append,
            clock=lambda: 0.0,
        )
        self.worker = Worker(
            core, context=CONTEXT, max_queue=max_queue, idle_s=0.05, on_failure=self._failed
        )

    def _boundary(self, load: Load) -> Limits:
        if self.broken is not None:
            raise self.broken
        self.boundaries.release()
        return self.limits

    def _failed(self, error: BaseException) -> None:
        self.failures.append(error)
        self.ended.set()


@pytest.fixture
def running(loaded: Loaded) -> Iterator[Running]:
    running = Running(loaded)
    running.worker.start()
    yield running
    running.worker.close()
    assert running.pool.free == running.pool.total


def test_requests_from_many_threads_are_answered(running: Running, chat: Chat) -> None:
    generator: Generator = running.worker
    listeners = [Listener() for _ in range(4)]
    threads = [
        threading.Thread(
            target=generator.submit, args=(request(f"r{at}", chat("Hi."), max_tokens=5), listener)
        )
        for at, listener in enumerate(listeners)
    ]
    for thread in threads:
        thread.start()
    for listener in listeners:
        assert listener.last().finish in ("length", "stop")
        assert listener.last().progress.first_token_s is not None
    assert {output.id for one in listeners for output in one.outputs} == {"r0", "r1", "r2", "r3"}


def test_an_idle_engine_reaches_boundaries_and_wake_hastens_the_next(running: Running) -> None:
    for _ in range(3):
        assert running.boundaries.acquire(timeout=PATIENCE_S)
    running.worker.wake()
    assert running.boundaries.acquire(timeout=PATIENCE_S)
    assert running.worker.load().running == {}


def test_a_full_queue_refuses_and_says_when_to_come_back(loaded: Loaded, chat: Chat) -> None:
    running = Running(loaded, max_queue=2)
    listeners = [Listener() for _ in range(3)]
    for at in range(2):
        running.worker.submit(request(f"r{at}", chat("Hi."), max_tokens=2), listeners[at])
    with pytest.raises(QueueFull, match="2 requests") as refused:
        running.worker.submit(request("r2", chat("Hi."), max_tokens=2), listeners[2])
    assert refused.value.retry_after_s > 0
    running.worker.start()
    assert [one.last().finish for one in listeners[:2]] != []
    running.worker.submit(request("r2", chat("Hi."), max_tokens=2), listeners[2])
    assert listeners[2].last().finish in ("length", "stop")
    running.worker.close()


def test_the_waiting_count_against_the_bound_too(loaded: Loaded, chat: Chat) -> None:
    running = Running(loaded, cap=1, max_queue=2)
    running.worker.start()
    first, rest = Listener(), [Listener(), Listener()]
    running.worker.submit(request("a", chat("Write a long story."), max_tokens=300), first)
    assert first.first.wait(PATIENCE_S)
    for at, listener in enumerate(rest):
        running.worker.submit(request(f"b{at}", chat("Hi."), max_tokens=2), listener)
    with pytest.raises(QueueFull):
        running.worker.submit(request("c", chat("Hi."), max_tokens=2), Listener())
    for name in ("a", "b0", "b1"):
        running.worker.cancel(name)
    assert {one.last().finish for one in (first, *rest)} == {"cancelled"}
    running.worker.close()


@pytest.mark.parametrize("length", [0, CONTEXT, CONTEXT + 1])
def test_a_prompt_that_cannot_run_is_refused_at_once(running: Running, length: int) -> None:
    with pytest.raises(Rejected, match=f"prompt of {length} tokens") as refused:
        running.worker.submit(request("a", (5,) * length, max_tokens=1), Listener())
    assert refused.value.field == "prompt"


def test_a_failed_step_ends_every_request_and_later_ones_are_refused(
    running: Running, chat: Chat
) -> None:
    listener = Listener()
    running.worker.submit(request("a", chat("Write a story."), max_tokens=300), listener)
    assert listener.first.wait(PATIENCE_S)
    running.broken = RuntimeError("the plant is on fire")
    last = listener.last()
    assert (last.finish, last.error) == ("error", "engine stopped: the plant is on fire")
    assert running.ended.wait(PATIENCE_S)
    assert running.failures == [running.broken]
    assert running.worker.failure is running.broken
    with pytest.raises(Unavailable, match="on fire"):
        running.worker.submit(request("b", chat("Hi."), max_tokens=1), Listener())


def test_closing_ends_open_requests_as_cancelled(loaded: Loaded, chat: Chat) -> None:
    running = Running(loaded)
    running.worker.start()
    listener = Listener()
    running.worker.submit(request("a", chat("Write a story."), max_tokens=300), listener)
    assert listener.first.wait(PATIENCE_S)
    running.worker.close()
    assert listener.last().finish == "cancelled"
    assert running.pool.free == running.pool.total
    with pytest.raises(Unavailable, match="stopping"):
        running.worker.submit(request("b", chat("Hi."), max_tokens=1), Listener())

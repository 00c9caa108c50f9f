"""One consumer and the thread that it belongs to.

kafka-python's consumer is not thread-safe, and a rebalance is only seen by a ``poll`` that is under
way when it ends: left alone for the time of a batch, the client joins again and again. So a thread
does nothing but poll. It gives what came to the partitions' readers, and between two polls it does
what they ask. A partition whose reader has enough is paused, which bounds memory.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as StillWaiting
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import kafka.errors
from kafka import ConsumerRebalanceListener, TopicPartition

from signals.bus.settings import KafkaSettings
from signals.errors import Broken, Unavailable

log = logging.getLogger(__name__)

_POLL_MS = 20
"""How long an idle poll lasts, and so what a reader's question may wait."""
POLL_RECORDS = 16
"""Given to the readers at once: they are unpacked by then, and a record may be ``record_bytes``
long however few bytes were fetched for it."""
QUIET_S = 3.0
"""A partition that is assigned and silent for so long is asked for again. Seldom, after a rebalance
that was broken off, kafka-python keeps one without fetching it; nobody else would ever read it."""
_AFTER_FAILURE_S = 0.2
_ENDING_S = 5.0

T = TypeVar("T")


@contextmanager
def kafkas_errors() -> Iterator[None]:
    """What Kafka raises may pass: ``Unavailable``.

    By ``KeyError`` and ``ValueError`` kafka-python says that a partition has just gone.
    """
    try:
        yield
    except (kafka.errors.KafkaError, KeyError, ValueError) as error:
        raise Unavailable(f"Kafka: {error or type(error).__name__}") from error


class Feed(Protocol):
    """A partition's reader, as the consumer's thread sees it."""

    partition: TopicPartition

    @property
    def full(self) -> bool:
        """Whether nothing more may be fetched for it now."""

    def take(self, records: Sequence[Any], consumer: Any) -> None:
        """What was fetched, in order."""

    def revive(self, consumer: Any) -> bool:
        """Nothing has come for ``QUIET_S``: fetch from here again. Whether something should have
        come, and did not, three times in a row."""

    def moved(self) -> None:
        """The partition came anew: what follows is from anywhere, until somebody says where."""


class Moves(ConsumerRebalanceListener):  # type: ignore[misc]
    """Partitions that came or went, as the client's own thread tells; asked by the consumer's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._moved: set[TopicPartition] = set()

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """They go, or went: also called for those that were lost."""
        self._note(revoked)

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """They came."""
        self._note(assigned)

    def take(self) -> set[TopicPartition]:
        """Those since the last time."""
        with self._lock:
            moved, self._moved = self._moved, set()
            return moved

    def _note(self, moved: Iterable[TopicPartition]) -> None:
        with self._lock:
            self._moved.update(moved)


class Consumption:
    """Runs a consumer until closed. Raises ``Unavailable`` when none can be made.

    ``make`` is given what the consumer tells of rebalances to. ``changed`` guards what readers
    share with the thread, and tells them of news.
    """

    def __init__(self, settings: KafkaSettings, make: Callable[[Moves], Any]) -> None:
        self.topic = settings.topic
        self._moves = Moves()
        self.changed = threading.Condition()
        self._feeds: dict[TopicPartition, Feed] = {}
        self._assigned: frozenset[int] = frozenset()
        self._failure: str | None = None
        self._heard_s: dict[TopicPartition, float] = {}
        self._stuck = False
        self._questions: queue.SimpleQueue[tuple[Callable[[Any], Any], Future[Any]]]
        self._questions = queue.SimpleQueue()
        self._closed = threading.Event()
        self._answer_s = settings.request_timeout_ms / 1000 + 1
        with kafkas_errors():
            self._consumer = make(self._moves)
        self._thread = threading.Thread(target=self._run, name="kafka-consumer", daemon=True)
        self._thread.start()

    def assigned(self) -> frozenset[int]:
        """The partitions that the group gave us. Raises ``Unavailable`` while polls fail."""
        self._check()
        with self.changed:
            if self._failure is not None:
                raise Unavailable(self._failure)
            return self._assigned

    def is_stuck(self) -> bool:
        """Whether a partition is not fetched, whatever is tried: leave the group and join anew."""
        return self._stuck

    def feed(self, reader: Feed) -> None:
        """Give this reader what comes of its partition."""
        with self.changed:
            self._feeds[reader.partition] = reader

    def forget(self, partition: TopicPartition) -> None:
        """Nobody reads it any more."""
        with self.changed:
            self._feeds.pop(partition, None)

    def ask(self, question: Callable[[Any], T]) -> T:
        """Have the thread ask its consumer. Raises ``Unavailable``."""
        self._check()
        answer: Future[T] = Future()
        self._questions.put((question, answer))
        try:
            with kafkas_errors():
                return answer.result(self._answer_s)
        except StillWaiting as error:
            raise Unavailable("Kafka does not answer") from error

    def poll(self) -> None:
        """Let readers have what has come. On the thread only, and by what it is asked."""
        found = self._consumer.poll(timeout_ms=_POLL_MS, max_records=POLL_RECORDS)
        for partition in self._moves.take() & self._feeds.keys():
            self._feeds[partition].moved()
        fed = {self._feeds[each]: records for each, records in found.items() if each in self._feeds}
        try:
            for feed, records in fed.items():
                self._heard_s[feed.partition] = time.monotonic()
                feed.take(records, self._consumer)
        except BaseException:
            # The consumer stands behind all of it: what was not taken must be sought again.
            for feed in fed:
                feed.moved()
            raise

    def close(self) -> None:
        """Leave the group, if there is one, and let go of the connections."""
        self._closed.set()
        self._thread.join(self._answer_s + _ENDING_S)

    def _check(self) -> None:
        if self._closed.is_set():
            raise Unavailable("the reader is closed")
        if not self._thread.is_alive():
            raise Broken("the consumer's thread has ended by itself")

    def _run(self) -> None:
        try:
            while not self._closed.is_set():
                self._round()
        finally:
            self._consumer.close(autocommit=False)

    def _round(self) -> None:
        self._answer()
        try:
            self._pause_the_full()
            self.poll()
            self._revive_the_silent()
            self._note(None)
        except (kafka.errors.KafkaError, KeyError, ValueError) as error:
            self._note(f"Kafka: {error or type(error).__name__}")
            self._closed.wait(_AFTER_FAILURE_S)

    def _note(self, failure: str | None) -> None:
        assigned = frozenset(each.partition for each in self._consumer.assignment())
        with self.changed:
            self._failure, self._assigned = failure, assigned

    def _pause_the_full(self) -> None:
        """Also what nobody reads yet: it would be fetched from anywhere."""
        for partition in self._consumer.assignment():
            feed = self._feeds.get(partition)
            if feed is None or feed.full:
                self._consumer.pause(partition)
            else:
                self._consumer.resume(partition)

    def _revive_the_silent(self) -> None:
        now_s = time.monotonic()
        for partition in self._consumer.assignment():
            feed = self._feeds.get(partition)
            if feed is None or feed.full:
                self._heard_s[partition] = now_s
            elif now_s - self._heard_s.setdefault(partition, now_s) > QUIET_S:
                self._heard_s[partition] = now_s
                self._stuck = feed.revive(self._consumer) or self._stuck

    def _answer(self) -> None:
        while True:
            try:
                question, answer = self._questions.get_nowait()
            except queue.Empty:
                return
            try:
                answer.set_result(question(self._consumer))
            except (kafka.errors.KafkaError, KeyError, ValueError) as error:
                answer.set_exception(error)

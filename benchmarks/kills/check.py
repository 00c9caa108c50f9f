"""What is in the features, held against the load generator's own tally."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

from msgspec import Struct

from benchmarks.kills.tally import Books, Feedback
from signals.events import MICROS
from signals.features.model import Outcome, WindowRevision
from signals.features.reader import SqliteFeatures

EVER_US = 2**62
SHOWN = 8
"""Faults of one kind that are written out."""

Of = Callable[[str], SqliteFeatures]
"""A target's features."""
Rate = tuple[str, str, str]
"""Target, metric, producer."""


class Found(Struct, frozen=True, kw_only=True):
    """The comparison. ``faults``: in words, the first of each kind."""

    lost: int
    twice: int
    faults: tuple[str, ...]


class _Ledger:
    """Faults by kind."""

    def __init__(self) -> None:
        self._faults: defaultdict[str, list[str]] = defaultdict(list)

    def add(self, kind: str, detail: str) -> None:
        self._faults[kind].append(detail)

    def count(self, kind: str) -> int:
        return len(self._faults[kind])

    def found(self) -> Found:
        words = [
            f"{kind}: {len(details)} ({'; '.join(details[:SHOWN])})"
            for kind, details in self._faults.items()
            if details
        ]
        return Found(lost=self.count("lost"), twice=self.count("twice"), faults=tuple(words))


def compare(books: Books, of: Of) -> Found:
    """Requests, every piece of feedback, sums of windows, dead letters, orphans, gaps."""
    ledger = _Ledger()
    targets = sorted({*books.requests.values()})
    outcomes = _outcomes(books, of, ledger)
    _feedback(books, outcomes, ledger)
    windows = {target: of(target).windows(target, from_us=0, to_us=EVER_US) for target in targets}
    _requests(books, of, windows, ledger)
    _sums(books, outcomes, windows, ledger)
    _set_aside(books, [of(target) for target in targets], targets, ledger)
    return ledger.found()


def _outcomes(books: Books, of: Of, ledger: _Ledger) -> list[Outcome]:
    found: list[Outcome] = []
    for request_id, target in books.requests.items():
        features = of(target)
        row = features.request(request_id)
        if row is None or row.status != "ok":
            ledger.add("lost", f"request {request_id}: {row and row.status}")
        found += features.outcomes(request_id)
    return found


def _feedback(books: Books, outcomes: Sequence[Outcome], ledger: _Ledger) -> None:
    """Each event once, about its own request, with its own value."""
    times = Counter(outcome.event_id for outcome in outcomes)
    for event_id, event in books.feedback.items():
        if times[event_id] > 1:
            ledger.add("twice", f"{event_id}: {times[event_id]} outcomes")
        if not times[event_id] and books.states[event_id] == "acknowledged":
            ledger.add("lost", f"{event_id} about {event.request_id}")
    for outcome in outcomes:
        posted = books.feedback.get(outcome.event_id)
        if posted is None:
            ledger.add("never posted", outcome.event_id)
        elif (
            outcome.request_id != posted.request_id
            or round(outcome.value * MICROS) != posted.micros
            or outcome.producer != posted.producer
        ):
            ledger.add("changed", f"{outcome} is not {posted}")


def _requests(
    books: Books, of: Of, windows: dict[str, Sequence[WindowRevision]], ledger: _Ledger
) -> None:
    for target, n in Counter(books.requests.values()).items():
        for name in ("completed", "requests"):
            counted = sum(getattr(window.counts, name) for window in windows[target])
            if counted != n:
                kind = "lost" if counted < n else "twice"
                ledger.add(kind, f"{target}: {name} is {counted} in windows, {n} were posted")
        incomplete = sum(window.incomplete for window in windows[target])
        gaps = sum(engine.gaps for engine in of(target).engines(target))
        if gaps or incomplete:
            ledger.add("gaps", f"{target}: {gaps}, {incomplete} windows are incomplete")


def _sums(
    books: Books,
    outcomes: Sequence[Outcome],
    windows: dict[str, Sequence[WindowRevision]],
    ledger: _Ledger,
) -> None:
    """Sums of windows to the micro-unit, by target, metric and producer."""
    there = {outcome.event_id for outcome in outcomes}
    events = [event for event_id, event in books.feedback.items() if event_id in there]
    expected = _expected(events)
    counted: defaultdict[Rate, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for target, found in windows.items():
        for window in found:
            for metric, by in window.counts.outcomes.items():
                for producer, (n, micros) in by.items():
                    before = counted[target, metric, producer]
                    counted[target, metric, producer] = (before[0] + n, before[1] + micros)
    for rate in sorted({*expected, *counted}):
        if expected.get(rate, (0, 0)) != counted.get(rate, (0, 0)):
            ledger.add(
                "sums", f"{rate}: {counted.get(rate)} in windows, {expected.get(rate)} posted"
            )


def _expected(events: Sequence[Feedback]) -> dict[Rate, tuple[int, int]]:
    """(Requests with a value, sum of values in micro-units)."""
    named: defaultdict[Rate, set[str]] = defaultdict(set)
    sums: Counter[Rate] = Counter()
    for event in events:
        rate = (event.target, event.metric, event.producer)
        named[rate].add(event.request_id)
        sums[rate] += event.micros
    return {rate: (len(ids), sums[rate]) for rate, ids in named.items()}


def _set_aside(
    books: Books, files: Sequence[SqliteFeatures], targets: Sequence[str], ledger: _Ledger
) -> None:
    """Dead letters are those of the ids that were contradicted; nothing waits for its request."""
    letters = {
        (letter.target, letter.offset): letter
        for features in files
        for letter in features.dead_letters(limit=10_000)
    }.values()
    for letter in letters:
        if letter.reason != "conflict" or letter.event_id not in books.conflicts:
            ledger.add("dead letters", f"{letter.event_id}: {letter.reason}, {letter.detail}")
    told = {letter.event_id for letter in letters}
    for event_id in sorted(books.conflicts - told):
        ledger.add("lost", f"the contradiction of {event_id} is no dead letter")
    for features, target in zip(files, targets, strict=True):
        waiting = features.orphans_waiting(target=target)
        if waiting:
            ledger.add("orphans", f"{target}: {waiting}")

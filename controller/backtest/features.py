"""``Features`` straight from a simulated fleet's records, with no bus and no stage between.

A request is in the 5 s window in which it arrived, under the stamp it arrived under. Windows are
folded by the stage's own arithmetic, from the few seconds that are asked for, and anew only where
something has changed since they were asked for last.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

from engine.simulated.fleet import Fleet
from signals.events import MICROS, Second
from signals.features.model import (
    ATOM_S,
    EngineSeen,
    Outcome,
    RequestRow,
    SecondRow,
    WindowKey,
    WindowRevision,
)
from signals.features.windows import Tally, atom_of, start_of

ATOM_US = ATOM_S * MICROS
TRIAL_US = 2 * 3600 * MICROS
"""A whole trial's rows are looked for this far back from when it was first asked for."""
BEFORE_US = 120 * MICROS
"""A block's rows are looked for this far back: the loop asks every second for one that runs."""
SLICE_US = 10 * MICROS
RECENT_US = 120 * MICROS
"""Where the latest requests are looked for."""
MAX_SLICES = 256
"""Folded stretches of 5 s that are remembered: 20 minutes, more than a block takes."""

Users = Callable[[RequestRow], Sequence[Outcome]]
"""What users say of a request, each at its own time. The same whenever it is asked for."""
Records = tuple[list[RequestRow], list[Second]]


class SimulatedFeatures:
    """See ``Features``. What is asked for is of the fleet's one target. ``users``: who say
    something afterwards; without them nobody gives feedback."""

    def __init__(self, fleet: Fleet, users: Users | None = None) -> None:
        self._fleet = fleet
        self._users = users
        self._asked_us: dict[tuple[str, int | None], int] = {}
        self._slices: dict[int, tuple[Records, list[WindowRevision]]] = {}

    @property
    def now_us(self) -> int:
        """Up to where the fleet was run."""
        return self._fleet.now_us

    def watermark_us(self, target: str) -> int:
        """Everything up to now has been told."""
        del target
        return self.now_us

    def revisions(self, *, after: int, limit: int = 1000) -> Sequence[WindowRevision]:
        """None is published: the loop of a backtest asks for windows by time."""
        del after, limit
        return ()

    def windows(
        self, target: str, *, from_us: int, to_us: int, width_s: int = ATOM_S
    ) -> Sequence[WindowRevision]:
        """5 s windows that begin in [from, to), by key."""
        del target, width_s
        start_us = start_of(from_us + ATOM_US - 1, ATOM_S)
        until_us = min(to_us, self.now_us)
        found: list[WindowRevision] = []
        if self._fleet.keeps_time:
            for at_us in range(start_us, until_us, ATOM_US):
                found += self._slice(at_us)
        else:
            found = self._folded(*self._records(start_us, until_us))
        found.sort(key=lambda window: window.key)
        return [window for window in found if start_us <= window.key.start_us < to_us]

    def arrived(self, target: str, *, from_us: int, width_s: int) -> Mapping[str, int]:
        """Requests since then, by intent."""
        del target, width_s
        return Counter(row.intent for row in self._fleet.requests(from_us, self.now_us))

    def trial_requests(self, trial: str, *, block: int | None = None) -> Sequence[RequestRow]:
        """Requests that arrived under a trial, as known now."""
        return [
            row
            for row in self._fleet.requests(self._since_us(trial, block), self.now_us)
            if row.trial == trial and block in (None, row.block)
        ]

    def trial_seconds(self, trial: str, *, block: int | None = None) -> Sequence[SecondRow]:
        """Seconds reported under a trial."""
        return [
            row
            for row in self._fleet.seconds(self._since_us(trial, block), self.now_us)
            if row.trial == trial and block in (None, row.block)
        ]

    def seconds(self, target: str, *, from_us: int, to_us: int) -> Sequence[SecondRow]:
        """Seconds that ended in (from, to]."""
        del target
        return list(self._fleet.seconds(from_us, min(to_us, self.now_us)))

    def request(self, request_id: str) -> RequestRow | None:
        """One of the latest requests."""
        recent = self._fleet.requests(self.now_us - RECENT_US, self.now_us)
        return next((row for row in recent if row.request_id == request_id), None)

    def find_requests(
        self, target: str, *, good: bool | None = None, intent: str | None = None, limit: int = 20
    ) -> Sequence[RequestRow]:
        """The latest that match, newest first."""
        del target
        found: list[RequestRow] = []
        for until_us in range(self.now_us, max(0, self.now_us - RECENT_US), -SLICE_US):
            found += [
                row
                for row in reversed(self._fleet.requests(until_us - SLICE_US, until_us))
                if intent in (None, row.intent) and good in (None, row.good)
            ]
            if len(found) >= limit:
                break
        return found[:limit]

    def outcomes(self, request_id: str) -> Sequence[Outcome]:
        """What users said of one of the latest requests."""
        row = self.request(request_id)
        return () if row is None else self._said([row])

    def trial_outcomes(self, trial: str, *, block: int) -> Sequence[Outcome]:
        """What users said by now of a block's requests."""
        return self._said(self.trial_requests(trial, block=block))

    def engines(self, target: str) -> Sequence[EngineSeen]:
        """The replicas."""
        del target
        return list(self._fleet.engines())

    def _said(self, rows: Sequence[RequestRow]) -> list[Outcome]:
        if self._users is None:
            return []
        said = [one for row in rows for one in self._users(row) if one.time_us <= self.now_us]
        return sorted(said, key=lambda one: one.time_us)

    def _slice(self, at_us: int) -> list[WindowRevision]:
        """The windows of 5 s, folded anew only when something in them has changed."""
        now = self._records(at_us, at_us + ATOM_US)
        if at_us + ATOM_US > self.now_us:
            return self._folded(*now)
        before = self._slices.get(at_us)
        if before is None or before[0] != now:
            before = self._slices[at_us] = now, self._folded(*now)
            if len(self._slices) > MAX_SLICES:
                del self._slices[min(self._slices)]
        return before[1]

    def _records(self, from_us: int, to_us: int) -> tuple[list[RequestRow], list[Second]]:
        """What arrived and what seconds began in [from, to); all of them end soon after."""
        requests = self._fleet.requests(from_us - 1, to_us - 1)
        seconds = self._fleet.records(from_us, to_us + ATOM_US)
        if self._fleet.keeps_time:
            seconds = [second for second in seconds if from_us <= second.from_us < to_us]
        return requests, seconds

    def _folded(
        self, requests: Sequence[RequestRow], seconds: Sequence[Second]
    ) -> list[WindowRevision]:
        tallies: defaultdict[WindowKey, Tally] = defaultdict(Tally)
        for row in requests:
            _count(tallies[_atom(row)], row)
        for second in seconds:
            for intent, load in second.intents.items():
                tallies[atom_of(second.stamp, intent, second.from_us)].load(second, load)
        return [self._window(key, tally) for key, tally in tallies.items()]

    def _since_us(self, trial: str, block: int | None) -> int:
        """Before anything of a block: it is asked for soon after it began."""
        first_us = self._asked_us.setdefault((trial, block), self.now_us)
        return first_us - BEFORE_US if block is not None else first_us - TRIAL_US

    def _window(self, key: WindowKey, tally: Tally) -> WindowRevision:
        end_us = key.start_us + ATOM_US
        closed = end_us <= self.now_us
        return WindowRevision(
            cursor=self.now_us,
            key=key,
            revision=int(closed),
            closed=closed,
            incomplete=self._fleet.incomplete(key.start_us, min(end_us, self.now_us)),
            counts=tally.frozen(),
        )


def _count(tally: Tally, row: RequestRow) -> None:
    """One request, as far as it went."""
    tally.arrived()
    if row.finished_us is not None:
        if row.status == "error":
            tally.sums["errors"] += 1
        if row.status == "ok":
            tally.sums["completed"] += 1
            tally.e2e.add(row.finished_us - row.arrival_us)
        tally.ttft.add(row.ttft_us)
        tally.tpot.add(row.tpot_us)
    if row.good is not None:
        tally.judged(row.good, row.output_tokens)


def _atom(row: RequestRow) -> WindowKey:
    return WindowKey(
        target=row.target,
        replica=row.replica,
        intent=row.intent,
        digest=row.digest,
        trial=row.trial,
        block=row.block,
        start_us=start_of(row.arrival_us, ATOM_S),
        width_s=ATOM_S,
    )

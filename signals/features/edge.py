"""Counting at the edge: a very busy engine sends windows and names instead of every request.

::

    arrived, finished ─► EdgeCounter ─► counted (source, window, revision)   a few a second
    second, started   ─►             ─► named   (ids that feedback may use)  a thousand at a time
                                     └► second, started, as they are

It works with the feature stage's own arithmetic (``Recording``, ``Tally``), so a window that is
made of counted parts has the same bytes as one that is made of requests. Pure: give it records as
they happen, post what it returns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from signals.errors import Rejected
from signals.events import (
    MICROS,
    Arrived,
    Counted,
    Finished,
    Named,
    NamedRequest,
    Record,
    SeenStamp,
    SeenTrial,
)
from signals.features.change import Change, FeatureRules, Known
from signals.features.joining import Join
from signals.features.model import RequestRow, WindowKey
from signals.features.recording import Recording
from signals.features.windows import Tally
from signals.records import event_time_us

KEPT_S: Final = 600
"""A window is counted this long after its start; engines tell of requests as they end."""
NAMES: Final = 1_000
"""Requests in one ``named``."""


class EdgeCounter:
    """One source: one incarnation of one replica. ``first_seq``: the number of its next record.

    Memory: a row for each request that has not ended, and ``KEPT_S`` of windows.
    """

    def __init__(self, rules: FeatureRules, *, source: str, first_seq: int = 0) -> None:
        self._rules = rules
        self._source = source
        self._seq = first_seq
        self._next_raw: int | None = None
        self._now_us = 0
        self._open: dict[str, RequestRow] = {}
        self._tallies: dict[WindowKey, Tally] = {}
        self._revisions: dict[WindowKey, int] = {}

    def take(self, records: Sequence[Record]) -> list[Record]:
        """What to post instead of these, numbered anew.

        Raises ``Rejected`` for a record of a window that was forgotten in an earlier call; nothing
        of the call is taken then.
        """
        self._check(records)
        self._pass_gaps_on(records)
        known, change = Known(), Change()
        known.rows = dict(self._open)
        recording = Recording(known, change, self._rules, Join(known, change, self._rules))
        kept: list[Record] = []
        for record in records:
            self._now_us = max(self._now_us, event_time_us(record))
            if isinstance(record, Arrived | Finished):
                recording.request(record)
            else:
                kept.append(record)
        for row in list(known.rows.values()):
            if row.good is None:
                recording.settle(row, watermark_us=self._now_us)
        appeared = [row for id_, row in change.rows.items() if id_ not in self._open]
        self._open = {id_: row for id_, row in known.rows.items() if row.finished_us is None}
        found = [*_named(appeared, self._now_us), *self._counted(change), *kept]
        self._forget()
        return [self._numbered(record) for record in found]

    def _check(self, records: Sequence[Record]) -> None:
        oldest_us = self._now_us - KEPT_S * MICROS
        for record in records:
            if isinstance(record, Arrived | Finished) and event_time_us(record) < oldest_us:
                raise Rejected(
                    f"too late to be counted at the edge: {record.request_id}",
                    field="finished_us" if isinstance(record, Finished) else "arrival_us",
                    value=event_time_us(record),
                    allowed=f"{oldest_us} or later",
                )

    def _pass_gaps_on(self, records: Sequence[Record]) -> None:
        """Records that were lost before they came here leave a gap in the numbers from here too."""
        for record in records:
            self._seq += self._next_raw is not None and record.seq > self._next_raw
            self._next_raw = record.seq + 1

    def _counted(self, change: Change) -> Iterator[Counted]:
        """Every window that changed, whole, in its next revision."""
        stamps = {_place(row): _stamp(row) for row in change.rows.values()}
        for key in sorted(change.tallies):
            tally = self._tallies.setdefault(key, Tally())
            tally.merge(change.tallies[key].frozen())
            self._revisions[key] = self._revisions.get(key, 0) + 1
            yield Counted(
                seq=0,
                stamp=stamps[key.target, key.replica, key.digest, key.trial, key.block],
                at_us=self._now_us,
                source=self._source,
                intent=key.intent,
                start_us=key.start_us,
                revision=self._revisions[key],
                counts=tally.frozen(),
            )

    def _forget(self) -> None:
        oldest_us = self._now_us - (KEPT_S + 5) * MICROS
        for key in [key for key in self._tallies if key.start_us < oldest_us]:
            del self._tallies[key], self._revisions[key]

    def _numbered(self, record: Record) -> Record:
        self._seq += 1
        return replace(record, seq=self._seq - 1)


def _named(rows: Sequence[RequestRow], at_us: int) -> Iterator[Named]:
    """The requests by stamp: feedback counts under the one that they arrived under."""
    by_stamp: dict[SeenStamp, list[NamedRequest]] = {}
    for row in rows:
        request = NamedRequest(
            request_id=row.request_id,
            intent=row.intent,
            class_=row.class_,
            arrival_us=row.arrival_us,
            external_id=row.external_id,
            session_id=row.session_id,
        )
        by_stamp.setdefault(_stamp(row), []).append(request)
    for stamp, requests in by_stamp.items():
        for start in range(0, len(requests), NAMES):
            some = tuple(requests[start : start + NAMES])
            yield Named(seq=0, stamp=stamp, at_us=at_us, requests=some)


def _place(row: RequestRow) -> tuple[str, str, str, str, int]:
    """What a window's key has of a stamp."""
    return row.target, row.replica, row.digest, row.trial, row.block


def _stamp(row: RequestRow) -> SeenStamp:
    trial = None
    if row.trial and row.arm is not None:
        trial = SeenTrial(id=row.trial, block=row.block, arm=row.arm)
    return SeenStamp(
        target=row.target,
        replica=row.replica,
        incarnation=row.incarnation,
        version=row.version,
        digest=row.digest,
        trial=trial,
        policies=row.policies,
    )

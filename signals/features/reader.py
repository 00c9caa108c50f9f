"""``Features`` over ``features.db``, read-only, from any process and thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from signals.events import MICROS
from signals.features import rows
from signals.features.change import EngineState
from signals.features.inspecting import Inspecting
from signals.features.model import (
    ATOM_S,
    MINUTE_S,
    WIDTHS_S,
    EngineSeen,
    Outcome,
    RequestRow,
    SecondRow,
    WindowRevision,
)
from signals.features.producers import clock_report
from signals.settings import FeatureSettings

MAX_ROWS = 200_000
"""The most rows one call gives; two hours of a busy target."""

_WINDOWS = f"SELECT {rows.WINDOW_COLUMNS} FROM windows WHERE "


class SqliteFeatures(Inspecting):
    """See ``Features``; what operators look at is ``Inspecting``'s."""

    def watermark_us(self, target: str) -> int:
        """See ``Features.watermark_us``."""
        found = self._rows("SELECT us FROM watermarks WHERE target = ?", target)
        return found[0][0] if found else 0

    def bus_offset(self) -> int:
        """The offset that the stage has behind it: what the bus may trim to."""
        return int(self._rows("SELECT bus_offset FROM position")[0][0])

    def revisions(self, *, after: int, limit: int = 1000) -> Sequence[WindowRevision]:
        """See ``Features.revisions``."""
        select = _WINDOWS + "cursor > ? AND width_s = ? ORDER BY cursor LIMIT ?"
        return [rows.window_of(row) for row in self._rows(select, after, ATOM_S, limit)]

    def windows(
        self, target: str, *, from_us: int, to_us: int, width_s: int = ATOM_S
    ) -> Sequence[WindowRevision]:
        """See ``Features.windows``."""
        select = (
            _WINDOWS + "target = ? AND width_s = ? AND start_us >= ? AND start_us < ?"
            f" AND (closed = 1 OR width_s <= {MINUTE_S})"
            " ORDER BY start_us, replica, intent, digest, trial, block LIMIT ?"
        )
        found = self._rows(select, target, width_s, from_us, to_us, MAX_ROWS)
        return [rows.window_of(row) for row in found]

    def arrived(self, target: str, *, from_us: int, width_s: int) -> Mapping[str, int]:
        """See ``Features.arrived``. Wide windows up to where they are closed, narrower ones after
        that, open atoms last: a sum of a column of at most some thousand rows."""
        select = (
            "SELECT intent, SUM(requests), MAX(start_us) FROM windows"
            " WHERE target = ? AND width_s = ? AND start_us >= ? AND closed >= ? GROUP BY intent"
        )
        found: Counter[str] = Counter()
        for each_s in sorted((w for w in WIDTHS_S if w <= width_s), reverse=True):
            last = self._rows(select, target, each_s, from_us, int(each_s > ATOM_S))
            found.update({intent: requests for intent, requests, _ in last})
            starts = (start_us for _, _, start_us in last)
            from_us = max((us + each_s * MICROS for us in starts), default=from_us)
        return dict(found)

    def trial_requests(self, trial: str, *, block: int | None = None) -> Sequence[RequestRow]:
        """See ``Features.trial_requests``."""
        order = " ORDER BY arrival_us, request_id LIMIT ?"
        select = "SELECT row FROM requests WHERE trial = ? AND trial <> ''" + _of_block(block)
        found = self._rows(select + order, trial, *_given(block), MAX_ROWS)
        return [rows.request_decoder.decode(row) for (row,) in found]

    def trial_outcomes(self, trial: str, *, block: int) -> Sequence[Outcome]:
        """See ``Features.trial_outcomes``."""
        select = (
            "SELECT o.row FROM requests AS r JOIN outcomes AS o ON o.request_id = r.request_id"
            " WHERE r.trial = ? AND r.trial <> '' AND r.block = ?"
            " ORDER BY o.time_us, o.bus_offset LIMIT ?"
        )
        found = self._rows(select, trial, block, MAX_ROWS)
        return [rows.outcome_decoder.decode(row) for (row,) in found]

    def trial_seconds(self, trial: str, *, block: int | None = None) -> Sequence[SecondRow]:
        """See ``Features.trial_seconds``."""
        select = "SELECT row FROM seconds WHERE trial = ? AND trial <> ''" + _of_block(block)
        found = self._rows(select + " ORDER BY to_us LIMIT ?", trial, *_given(block), MAX_ROWS)
        return [rows.second_decoder.decode(row) for (row,) in found]

    def seconds(self, target: str, *, from_us: int, to_us: int) -> Sequence[SecondRow]:
        """See ``Features.seconds``."""
        select = (
            "SELECT row FROM seconds WHERE target = ? AND to_us > ? AND to_us <= ?"
            " ORDER BY to_us LIMIT ?"
        )
        found = self._rows(select, target, from_us, to_us, MAX_ROWS)
        return [rows.second_decoder.decode(row) for (row,) in found]

    def request(self, request_id: str) -> RequestRow | None:
        """See ``Features.request``."""
        found = self._rows("SELECT row FROM requests WHERE request_id = ?", request_id)
        return rows.request_decoder.decode(found[0][0]) if found else None

    def find_requests(
        self, target: str, *, good: bool | None = None, intent: str | None = None, limit: int = 20
    ) -> Sequence[RequestRow]:
        """See ``Features.find_requests``."""
        select = "SELECT row FROM requests WHERE target = ?"
        if good is not None:
            select += " AND good = 1" if good else " AND good = 0"
        if intent is not None:
            select += " AND intent = ?"
        order = " ORDER BY arrival_us DESC, request_id DESC LIMIT ?"
        found = self._rows(select + order, target, *_given(intent), min(limit, MAX_ROWS))
        return [rows.request_decoder.decode(row) for (row,) in found]

    def outcomes(self, request_id: str) -> Sequence[Outcome]:
        """See ``Features.outcomes``."""
        select = (
            "SELECT row FROM outcomes WHERE request_id = ? ORDER BY time_us, bus_offset LIMIT ?"
        )
        found = self._rows(select, request_id, MAX_ROWS)
        return [rows.outcome_decoder.decode(row) for (row,) in found]

    def joined(self, *, after: int = 0, limit: int = 1000) -> Sequence[tuple[int, Outcome]]:
        """Outcomes with the offsets of the events that brought them, above ``after``."""
        select = (
            "SELECT bus_offset, row FROM outcomes WHERE bus_offset > ? ORDER BY bus_offset LIMIT ?"
        )
        found = self._rows(select, after, min(limit, MAX_ROWS))
        return [(offset, rows.outcome_decoder.decode(row)) for offset, row in found]

    def engines(self, target: str) -> Sequence[EngineSeen]:
        """See ``Features.engines``."""
        select = "SELECT state FROM engines WHERE target = ? ORDER BY replica, first_us, last_us"
        found = self._rows(select, target)
        states = [rows.engine_decoder.decode(state) for (state,) in found]
        latest = {state.replica: state for state in states}
        return [_engine_seen(state, self._settings) for state in latest.values()]


def _of_block(block: int | None) -> str:
    return "" if block is None else " AND block = ?"


def _given(value: str | int | None) -> tuple[str | int, ...]:
    return () if value is None else (value,)


def _engine_seen(state: EngineState, settings: FeatureSettings) -> EngineSeen:
    return EngineSeen(
        target=state.target,
        replica=state.replica,
        incarnation=state.incarnation,
        fingerprint=state.fingerprint,
        curve=state.curve,
        kv=state.kv,
        last_us=state.last_us,
        gaps=sum(hole.missing for hole in state.sequence.holes()),
        dropped=state.dropped,
        clock=clock_report(state.delays, settings),
    )

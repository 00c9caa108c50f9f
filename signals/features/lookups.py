"""What the stage looks up in ``features.db``. Reads only; each has a bound."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from signals.events import MICROS, DiscardLetters, ReplayLetters
from signals.features import rows
from signals.features.batch import Needs
from signals.features.change import Change, EngineState, Known, Orphan, Suspect
from signals.features.keeping import PART_S
from signals.features.letters import Chosen, choose
from signals.features.model import ATOM_S, RequestRow, WindowKey, WindowRevision
from signals.features.schema import passing
from signals.features.seen import SeenDays
from signals.features.windows import within

EXTERNAL_MATCHES = 20
"""Requests looked at per external id, latest first: a client may send the same id for ever."""
ORPHAN_MATCHES = 1000
"""Orphans joined to one request when it appears, the oldest first."""
GIVING_UP = 1000
"""Events of sessions bound in one batch because they waited long enough."""
AT_ONCE = 500
"""Ids asked for in one statement."""

_ORPHANS = "SELECT bus_offset, accepted_us, signal, due_us, give_up_us FROM orphans WHERE "
_OLDEST = f" ORDER BY bus_offset LIMIT {ORPHAN_MATCHES}"
_WINDOWS = f"SELECT {rows.WINDOW_COLUMNS} FROM windows WHERE target = ? AND width_s = ?"
NO_WINDOW = 2**62
_SAME = " AND replica = ? AND intent = ? AND digest = ? AND trial = ? AND block = ?"
_OPEN = f"SELECT {rows.WINDOW_COLUMNS} FROM windows WHERE closed = 0 AND target = ?"


Arguments = tuple[str | int, ...]


class Lookups:
    """Raises ``Unavailable``."""

    def __init__(self, db: sqlite3.Connection, seen: SeenDays) -> None:
        self._db = db
        self._seen = seen

    def load(self, needs: Needs) -> Known:
        """What folding a batch may look up."""
        known = Known()
        known.digests = self._seen.find(needs.identities)
        self._requests(needs, known)
        self._orphans(needs, known)
        self._giving_up(needs, known)
        self._sessions(needs.moments, known)
        self._values(_spoken_of(needs, known), known)
        self._engines(needs, known)
        known.quarantined = {name for (name,) in self._rows("SELECT producer FROM quarantine", ())}
        return known

    def letters(self, command: ReplayLetters | DiscardLetters, *, limit: int) -> Chosen:
        """The dead letters that a command is about."""
        with passing():
            return choose(self._db, command, limit=limit)

    def waiting(
        self, watermarks: Mapping[str, int], known: Known, change: Change, *, limit: int
    ) -> None:
        """Add the events of sessions that the watermarks have passed, and what they are about."""
        select = _ORPHANS + "target = ? AND due_us <= ? ORDER BY due_us, bus_offset LIMIT ?"
        due = self._each(select, ((*each, limit) for each in sorted(watermarks.items())))
        dealt_with = {*change.orphans, *change.orphans_gone, *known.waiting}
        orphans = [each for each in map(rows.orphan_of, due) if each.offset not in dealt_with]
        self._wait(orphans, known)

    def due(self, watermarks: Mapping[str, int], *, limit: int) -> list[RequestRow]:
        """Undecided requests whose deadline the watermark has reached, the earliest first."""
        select = "SELECT row FROM requests WHERE target = ? AND due_us <= ? ORDER BY due_us LIMIT ?"
        found = self._each(select, ((*each, limit) for each in sorted(watermarks.items())))
        return [rows.request_decoder.decode(row) for (row,) in found]

    def windows(self, keys: Iterable[WindowKey]) -> dict[WindowKey, WindowRevision]:
        """The stored state of these windows, where there is one."""
        select = _WINDOWS + " AND start_us = ?" + _SAME
        found = self._each(select, (rows.row_of_key(key) for key in keys))
        return {window.key: window for window in map(rows.window_of, found)}

    def to_close(self, target: str, closed_us: int, *, limit: int) -> list[WindowRevision]:
        """Open windows of a target that end at or before then, by end and width."""
        ends_us = f"start_us + width_s * {MICROS}"
        select = f"{_OPEN} AND {ends_us} <= ? ORDER BY {ends_us}, width_s LIMIT ?"
        return [rows.window_of(row) for row in self._rows(select, (target, closed_us, limit))]

    def open_since(self, target: str) -> int:
        """The start of the first open window of a target; the end of time without any."""
        select = "SELECT MIN(start_us) FROM windows WHERE closed = 0 AND target = ?"
        ((start_us,),) = self._rows(select, (target,))
        return NO_WINDOW if start_us is None else int(start_us)

    def suspected(self, suspects: Sequence[Suspect]) -> list[WindowRevision]:
        """Stored atoms that overlap the suspected times of their replica."""
        select = _WINDOWS + " AND start_us > ? AND start_us <= ? AND replica = ?"
        spans = (
            (each.target, ATOM_S, each.from_us - ATOM_S * MICROS, each.to_us, each.replica)
            for each in suspects
        )
        return [rows.window_of(row) for row in self._each(select, spans)]

    def parts(self, keys: Iterable[WindowKey]) -> dict[WindowKey, list[WindowRevision]]:
        """The stored parts of each of these windows, which are of one width."""
        wanted = {*keys}
        spans = {(key.target, key.width_s, key.start_us) for key in wanted}
        select = _WINDOWS + " AND start_us >= ? AND start_us < ?"
        found: defaultdict[WindowKey, list[WindowRevision]] = defaultdict(list)
        for target, width_s, start_us in sorted(spans):
            span = (target, PART_S[width_s], start_us, start_us + width_s * MICROS)
            for row in self._rows(select, span):
                whole = within(rows.key_of(row), width_s)
                if whole in wanted:
                    found[whole].append(rows.window_of(row))
        return found

    def incarnations(self, target: str, replica: str, *, since_us: int) -> list[EngineState]:
        """Those of a replica that reported since then, and the one before them."""
        select = "SELECT state FROM engines WHERE target = ? AND replica = ?"
        since = self._rows(select + " AND last_us >= ?", (target, replica, since_us))
        before = self._rows(
            select + " AND last_us < ? ORDER BY last_us DESC LIMIT 1", (target, replica, since_us)
        )
        return [rows.engine_decoder.decode(state) for (state,) in (*since, *before)]

    def _requests(self, needs: Needs, known: Known) -> None:
        by_id = "SELECT row FROM requests WHERE request_id = ?"
        by_external = (
            "SELECT row FROM requests WHERE target = ? AND external_id = ?"
            f" ORDER BY arrival_us DESC LIMIT {EXTERNAL_MATCHES}"
        )
        ids = ((id_,) for id_ in sorted(needs.request_ids))
        for row in self._each(by_id, ids):
            known.add_row(rows.request_decoder.decode(row[0]))
        for row in self._each(by_external, sorted(needs.external_ids)):
            known.add_row(rows.request_decoder.decode(row[0]))

    def _orphans(self, needs: Needs, known: Known) -> None:
        ids = ((id_,) for id_ in sorted(needs.request_ids))
        by_id = self._each(_ORPHANS + "request_id = ?" + _OLDEST, ids)
        by_external = self._each(
            _ORPHANS + "target = ? AND external_id = ?" + _OLDEST, sorted(needs.external_ids)
        )
        left = self._each(
            _ORPHANS
            + "target = ? AND session_id = ? AND due_us IS NULL AND time_us >= ?"
            + _OLDEST,
            ((*session, arrival_us) for session, arrival_us in sorted(needs.arrivals.items())),
        )
        for row in (*by_id, *by_external, *left):
            known.add_orphan(rows.orphan_of(row))

    def _giving_up(self, needs: Needs, known: Known) -> None:
        """Events of sessions that will have waited long enough in the course of this batch."""
        select = _ORPHANS + "due_us IS NOT NULL AND give_up_us <= ? ORDER BY give_up_us LIMIT ?"
        found = self._rows(select, (needs.accepted_us, GIVING_UP))
        self._wait([rows.orphan_of(row) for row in found], known)

    def _wait(self, orphans: Sequence[Orphan], known: Known) -> None:
        for orphan in orphans:
            known.add_orphan(orphan)
        signals = [orphan.signal for orphan in orphans]
        found = self._sessions({(s.target, s.session_id or "", s.time_us) for s in signals}, known)
        self._values(found, known)

    def _sessions(self, moments: Iterable[tuple[str, str, int]], known: Known) -> set[str]:
        """The last request before each moment of a session; their ids."""
        select = (
            "SELECT row FROM requests WHERE target = ? AND session_id = ? AND arrival_us <= ?"
            " ORDER BY arrival_us DESC, request_id DESC LIMIT 1"
        )
        found = [rows.request_decoder.decode(row) for (row,) in self._each(select, sorted(moments))]
        for row in found:
            if row.request_id not in known.rows:
                known.add_row(row)
        return {row.request_id for row in found}

    def _values(self, request_ids: Iterable[str], known: Known) -> None:
        wanted = sorted(request_ids)
        for start in range(0, len(wanted), AT_ONCE):
            some = wanted[start : start + AT_ONCE]
            marks = ",".join("?" * len(some))
            select = f"SELECT * FROM outcome_values WHERE request_id IN ({marks})"
            for row in self._rows(select, tuple(some)):
                key, value = rows.value_of(row)
                known.values.setdefault(key, value)

    def _engines(self, needs: Needs, known: Known) -> None:
        by_key = "SELECT state FROM engines WHERE target = ? AND replica = ? AND incarnation = ?"
        for (state,) in self._each(by_key, sorted(needs.engines)):
            engine = rows.engine_decoder.decode(state)
            known.engines[engine.target, engine.replica, engine.incarnation] = engine
        latest = "SELECT replica, MAX(last_us) FROM engines WHERE target = ? GROUP BY replica"
        for target in sorted(needs.targets):
            known.last_seen[target] = dict(self._rows(latest, (target,)))
        reached = "SELECT target, us FROM watermarks WHERE target = ?"
        known.watermarks = dict(self._each(reached, ((name,) for name in sorted(needs.targets))))

    def _each(self, select: str, arguments: Iterable[Arguments]) -> Iterator[tuple[Any, ...]]:
        with passing():
            for each in arguments:
                yield from self._db.execute(select, each)

    def _rows(self, select: str, arguments: Arguments) -> list[tuple[Any, ...]]:
        with passing():
            return self._db.execute(select, arguments).fetchall()


def _spoken_of(needs: Needs, known: Known) -> set[str]:
    """The known requests that feedback of the batch may be joined to."""
    found = needs.named & known.rows.keys()
    for external in needs.named_external:
        found.update(known.by_external.get(external, ()))
    for target, session_id, _ in needs.moments:
        found.update(known.by_session.get((target, session_id), ()))
    return found

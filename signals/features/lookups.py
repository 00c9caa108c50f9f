"""What the stage looks up in ``features.db``. Reads only; each has a bound."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from signals.events import MICROS, DiscardLetters, ReplayLetters
from signals.features import rows
from signals.features.batch import Needs
from signals.features.change import Change, EngineState, Known, Orphan, Suspect
from signals.features.keeping import PART_S
from signals.features.letters import Chosen, choose
from signals.features.model import ATOM_S, RequestRow, WindowKey, WindowRevision
from signals.features.schema import passing
from signals.features.seen import SeenDays
from signals.features.windows import atom_of, within

EXTERNAL_MATCHES = 20
"""Requests looked at per external id, latest first: a client may send the same id for ever."""
ORPHAN_MATCHES = 1000
"""Orphans joined to one request at a time, the oldest first."""
GIVING_UP = 1000
"""Events of sessions bound in one batch because they waited long enough."""

_ORPHAN_COLUMNS = "orphans.bus_offset, accepted_us, signal, due_us, give_up_us"
_ORPHANS = f"SELECT {_ORPHAN_COLUMNS} FROM orphans WHERE "
_ORPHANS_OF = (
    f"SELECT {_ORPHAN_COLUMNS} FROM json_each(?) AS wanted CROSS JOIN orphans"
    " ON orphans.bus_offset IN (SELECT bus_offset FROM orphans WHERE {}"
    f" ORDER BY bus_offset LIMIT {ORPHAN_MATCHES})"
)
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
        self._parts(needs, known)
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
        by_id = "SELECT row FROM requests WHERE request_id IN (SELECT value FROM json_each(?))"
        by_external = (
            "SELECT requests.row FROM json_each(?) AS wanted CROSS JOIN requests ON requests.rowid"
            " IN (SELECT rowid FROM requests WHERE target = ? AND external_id = wanted.value"
            f" ORDER BY arrival_us DESC LIMIT {EXTERNAL_MATCHES})"
        )
        for (row,) in self._rows(by_id, (_listed(needs.request_ids),)):
            known.add_row(rows.request_decoder.decode(row))
        for target, ids in _by_target(needs.external_ids):
            for (row,) in self._rows(by_external, (ids, target)):
                known.add_row(rows.request_decoder.decode(row))

    def _orphans(self, needs: Needs, known: Known) -> None:
        if not self._rows("SELECT 1 FROM orphans LIMIT 1", ()):
            return
        by_id = self._rows(
            _ORPHANS_OF.format("request_id = wanted.value"), (_listed(needs.request_ids),)
        )
        for row in by_id:
            known.add_orphan(rows.orphan_of(row))
        of_external = _ORPHANS_OF.format("target = ? AND external_id = wanted.value")
        for target, ids in _by_target(needs.external_ids):
            for row in self._rows(of_external, (ids, target)):
                known.add_orphan(rows.orphan_of(row))
        of_session = _ORPHANS_OF.format(
            "target = ? AND session_id = wanted.value ->> 0 AND due_us IS NULL"
            " AND time_us >= wanted.value ->> 1"
        )
        arrivals = ((target, (name, us)) for (target, name), us in needs.arrivals.items())
        for target, ids in _by_target(arrivals):
            for row in self._rows(of_session, (ids, target)):
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
            "SELECT requests.row FROM json_each(?) AS wanted CROSS JOIN requests ON requests.rowid"
            " IN (SELECT rowid FROM requests WHERE target = ? AND session_id = wanted.value ->> 0"
            " AND arrival_us <= wanted.value ->> 1"
            " ORDER BY arrival_us DESC, request_id DESC LIMIT 1)"
        )
        asked = ((target, (session_id, us)) for target, session_id, us in moments)
        found = [
            rows.request_decoder.decode(row)
            for target, ids in _by_target(asked)
            for (row,) in self._rows(select, (ids, target))
        ]
        for row in found:
            if row.request_id not in known.rows:
                known.add_row(row)
        return {row.request_id for row in found}

    def _values(self, request_ids: Iterable[str], known: Known) -> None:
        select = "SELECT * FROM outcome_values WHERE request_id IN (SELECT value FROM json_each(?))"
        for row in self._rows(select, (_listed(request_ids),)):
            key, value = rows.value_of(row)
            known.values.setdefault(key, value)

    def _parts(self, needs: Needs, known: Known) -> None:
        """What the sources at the edge said before."""
        select = (
            f"SELECT * FROM edge_parts WHERE target = ? AND width_s = ? AND start_us = ?{_SAME}"
            " AND source = ?"
        )
        keys = {
            (*rows.row_of_key(atom_of(each.stamp, each.intent, each.start_us)), each.source)
            for each in needs.counted
        }
        known.parts = dict(map(rows.part_of, self._each(select, sorted(keys))))

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


def _listed(wanted: Iterable[Any]) -> str:
    """As the one parameter that ``json_each`` takes apart: one statement for a whole batch costs a
    quarter of one for each id."""
    return msgspec.json.encode(sorted(wanted)).decode()


def _by_target(wanted: Iterable[tuple[str, Any]]) -> list[tuple[str, str]]:
    """(target, the listed rest), for statements that ask one target at a time."""
    found: defaultdict[str, set[Any]] = defaultdict(set)
    for target, rest in wanted:
        found[target].add(rest)
    return [(target, _listed(found[target])) for target in sorted(found)]


def _spoken_of(needs: Needs, known: Known) -> set[str]:
    """The known requests that feedback of the batch may be joined to."""
    found = needs.named & known.rows.keys()
    for external in needs.named_external:
        found.update(known.by_external.get(external, ()))
    for target, session_id, _ in needs.moments:
        found.update(known.by_session.get((target, session_id), ()))
    if known.orphans_by_request or known.orphans_by_external or known.orphans_by_session:
        # They may be waiting for a request that is known already.
        found.update(needs.request_ids & known.rows.keys())
    return found

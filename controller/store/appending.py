"""How entries get into the audit: kept back until the transaction ends, then appended at once.

::

    a change          its row, now        its entry, kept back
    …                                     …
    the end           head row locked ► indexes and times given ► all entries in one statement,
                      the head moved once ► commit

The head row is what every writer needs, so it is locked last and for the shortest time: writers of
different rows never wait for each other in a circle. A transaction that reads the audit it has
written to appends what it has so far, and holds the head from there on: read first, or last.

On PostgreSQL the lock, the entries and the move are one statement. It begins from the head that
this process saw last; where another writer has been meanwhile it changes nothing, and is sent
again from the head as it is now, locked. A transaction of a few moves and one entry for each is
sent whole, its ``COMMIT`` too; where a statement would have changed nothing, all of it is undone
by the database, and sent again as above to see why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, select

from controller.store.direct import all_sent, committed, first_row, sent, unsent
from controller.store.port import Act
from controller.store.prepared import sure
from controller.store.rows import Rows, Soon
from controller.store.tables import audit_head, notes
from policies.audit import canonical_text, entry_bytes, leaf_hash
from signals.errors import Broken, Fenced

FEW: Final = 4
"""Entries that are sent one by one, all in one message; more are one statement."""
EPOCH: Final = "epoch"
"""The note that says which serve owns the store."""


class Head(NamedTuple):
    """Entries so far, and the time of the last one."""

    size: int
    at_us: int


class Kept(NamedTuple):
    """An entry without its index, its details canonical already; ``then`` is told the index."""

    at_us: int
    actor: str
    action: str
    subject: str
    target: str
    details: str
    then: Callable[[int], None] | None = None


class EntryValues(NamedTuple):
    """A row of ``audit_entries``, in the order of its columns."""

    leaf_index: int
    at_us: int
    actor: str
    action: str
    subject: str
    target: str
    stored: bytes
    leaf_hash: bytes


OWNER: Final = select(notes.c.value).where(notes.c.key == EPOCH)
OWNER_LOCKED: Final = OWNER.with_for_update(read=True)
HEAD: Final = """SELECT size, at_us, (SELECT value FROM notes WHERE key = 'epoch') AS owner
    FROM audit_head"""
HEAD_LOCKED: Final = select(audit_head.c.size, audit_head.c.at_us).with_for_update()
MOVE_HEAD: Final = "UPDATE audit_head SET size = ?, at_us = ?"
INSERT: Final = """INSERT INTO audit_entries
    (leaf_index, at_us, actor, action, subject, target, stored, leaf_hash)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""
ONE: Final = """(VALUES (%(leaf_index)s::bigint, %(at_us)s::bigint, %(actor)s::text,
        %(action)s::text, %(subject)s::text, %(target)s::text, %(stored)s::bytea,
        %(leaf_hash)s::bytea))"""
MANY: Final = """unnest(%(leaf_index)s::bigint[], %(at_us)s::bigint[], %(actor)s::text[],
        %(action)s::text[], %(subject)s::text[], %(target)s::text[], %(stored)s::bytea[],
        %(leaf_hash)s::bytea[])"""
OWNED: Final = """owner AS MATERIALIZED (
        SELECT 1 FROM notes WHERE key = 'epoch' AND value = %(epoch)s FOR SHARE), """


def _moved(*, owned: bool) -> str:
    """Owner and head locked and compared, the head moved."""
    return f"""{OWNED if owned else ""}moved AS (
        UPDATE audit_head SET size = %(to)s, at_us = %(last_us)s {"FROM owner" if owned else ""}
        WHERE id = 1 AND size = %(size)s AND audit_head.at_us = %(seen_us)s RETURNING 1)"""


def _added(entries: str) -> str:
    return f"""INSERT INTO audit_entries
        (leaf_index, at_us, actor, action, subject, target, stored, leaf_hash)
    SELECT entry.* FROM moved, {entries} AS entry"""


def _append(entries: str, *, owned: bool) -> str:
    """One statement: the head moved, the entries added."""
    return f"WITH {_moved(owned=owned)} {_added(entries)}"


SURELY_ONE: Final = {
    owned: sure(_added(ONE), f"{_moved(owned=owned)}, ") for owned in (True, False)
}
APPEND_ONE: Final = {owned: _append(ONE, owned=owned) for owned in (True, False)}
APPEND_MANY: Final = {owned: _append(MANY, owned=owned) for owned in (True, False)}


class Appending(Rows):
    """The writing end of the audit, in one transaction.

    ``epoch``: of the serve that writes; the transaction ends only while it is the store's.
    ``head``: the audit's head as this process saw it last, if it did. ``ending``: whether the
    database was told to commit, or is about to be.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        writing: bool,
        epoch: int | None = None,
        head: Head | None = None,
    ) -> None:
        super().__init__(connection, writing=writing)
        self._epoch = epoch
        self._kept: list[Kept] = []
        self._owned = False
        self.head = head
        self.ending = False

    def finish(self) -> None:
        """Append what was kept back, as the transaction ends. Raises ``Fenced``.

        The transaction may have ended, and be durable, when it returns.
        """
        if self._ended_at_once():
            return
        self._append_kept()
        if not self._owned:
            self._check_owner()
        self.ending = True

    def append_many(self, acts: Iterable[Act]) -> int:
        """Append them all at once, after what was kept back; how many entries there are then.

        For histories that are brought in. Unlike ``append_audit`` it takes the actions that only a
        change may record: it is for the caller to bring in the rows that they speak of.
        """
        self._check_writing()
        self._append_kept()
        self._append([_kept(act) for act in acts])
        return self._locked_head().size

    @property
    def _audited(self) -> Connection:
        """The connection, to read the audit with all that this transaction wrote to it."""
        self._append_kept()
        return self._connection

    def _record(
        self,
        *,
        at_us: int,
        actor: str,
        action: str,
        subject: str,
        target: str,
        details: dict[str, Any],
        then: Callable[[int], None] | None = None,
    ) -> None:
        """Keep an entry until the transaction ends; ``then`` is told its index."""
        self._check_writing()
        text = canonical_text(details)
        self._kept.append(Kept(at_us, actor, action, subject, target, text, then))

    def _append_kept(self) -> None:
        kept, self._kept = self._kept, []
        if kept:
            self._append(kept)

    def _append(self, kept: Sequence[Kept]) -> None:
        if not kept:
            return
        if self._dialect == "sqlite":
            first = self._append_to_sqlite(kept)
        else:
            first = self._append_to_postgresql(kept)
        self._owned = True
        for index, one in enumerate(kept, first):
            if one.then is not None:
                one.then(index)

    def _append_to_sqlite(self, kept: Sequence[Kept]) -> int:
        """The whole database is locked from the transaction's beginning."""
        head = self._locked_head()
        rows = list(_rows(kept, head))
        all_sent(self._connection, INSERT, rows)
        last = rows[-1]
        sent(self._connection, MOVE_HEAD, (last.leaf_index + 1, last.at_us))
        return head.size

    def _append_to_postgresql(self, kept: Sequence[Kept]) -> int:
        seen = self.head
        if seen is None or not self._sent(kept, seen):
            seen = self._locked_head()
            if not self._sent(kept, seen):
                raise Broken("the audit's head moved while it was locked")
        return seen.size

    def _sent(self, kept: Sequence[Kept], head: Head) -> bool:
        """Whether the entries follow that head and are there; what was kept back goes with them."""
        rows = list(_rows(kept, head))
        appending, values = APPEND_ONE, rows[0]._asdict()
        if len(rows) > 1:
            columns = (list(column) for column in zip(*rows, strict=True))
            appending, values = APPEND_MANY, dict(zip(EntryValues._fields, columns, strict=True))
        self.head = Head(rows[-1].leaf_index + 1, rows[-1].at_us)
        values |= self._step(head, self.head)
        added = list[int]()
        self._change(Soon((appending[self._epoch is not None], values), added.append))
        self._send()
        return added == [len(rows)]

    def _step(self, head: Head, then: Head) -> dict[str, Any]:
        """What the appending statements name beside the entries."""
        there = {"size": head.size, "seen_us": head.at_us}
        return {**there, "to": then.size, "last_us": then.at_us, "epoch": str(self._epoch)}

    def _ended_at_once(self) -> bool:
        """Send a short transaction whole, if nothing of it was sent; whether it is durable now."""
        head, surely = self.head, [(one.sure, one.statement[1]) for one in self._soon]
        short = 0 < len(self._kept) <= FEW and all(one.then is None for one in self._kept)
        if head is None or not short or not unsent(self._behind):
            return False
        statements = [(text, values) for text, values in surely if text is not None]
        if len(statements) != len(surely):
            return False
        for row in _rows(self._kept, head):
            then = Head(row.leaf_index + 1, row.at_us)
            values = {**row._asdict(), **self._step(head, then)}
            statements.append((SURELY_ONE[self._epoch is not None], values))
            head = then
        self.ending = True
        self.ending = committed(self._behind, statements)
        if self.ending:
            self.head, self._owned = head, True
            self._soon.clear()
            self._kept.clear()
        return self.ending

    def _locked_head(self) -> Head:
        """The head as it is, and stays until the transaction ends. Raises ``Fenced``."""
        if self._dialect == "sqlite":
            found = first_row(self._connection, HEAD)
            if found is None:
                raise Broken("the audit's head row is gone")
            size, at_us, owner = found
            self._check(owner)
            return Head(size, at_us)
        self._check_owner()
        for locked in self._connection.execute(HEAD_LOCKED):
            return Head(locked.size, locked.at_us)
        raise Broken("the audit's head row is gone")

    def _check_owner(self) -> None:
        """Nobody takes the store over until the transaction ends. Raises ``Fenced``."""
        if self._epoch is not None:
            self._check(self._connection.execute(OWNER_LOCKED).scalar_one_or_none())
            self._owned = True

    def _check(self, owner: str | None) -> None:
        if self._epoch is not None and owner != str(self._epoch):
            raise Fenced(
                f"fenced by a newer serve: the store's epoch is {owner}, ours is {self._epoch}"
            )


def _kept(act: Act) -> Kept:
    return Kept(
        act.at_us, act.actor, act.action, act.subject, act.target, canonical_text(act.details)
    )


def _rows(kept: Iterable[Kept], head: Head) -> Iterator[EntryValues]:
    """Indexes follow the head's, and time never falls."""
    index, last_us = head
    for at_us, actor, action, subject, target, details, _ in kept:
        last_us = max(last_us, at_us)
        stored = entry_bytes(
            index=index,
            at_us=last_us,
            actor=actor,
            action=action,
            subject=subject,
            target=target,
            details=details,
        )
        hashed = leaf_hash(stored)
        yield EntryValues(index, last_us, actor, action, subject, target, stored, hashed)
        index += 1

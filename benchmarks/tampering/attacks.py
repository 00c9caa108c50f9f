"""What an insider does who owns the database, without the signing key and the heads outside.

He drops the triggers, does his work, and puts them back as they were. He knows the product: where
he rewrites an entry he makes canonical bytes, the leaf hash, the columns, the digests that entries
hold of rows, the rows and the head row anew, so that the database agrees with itself.

Each attack tells which entries it touched, or the beginning of the row's name that must be found.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from benchmarks.tampering.databases import Backup, Database
from controller.store.rows import content
from policies.audit import Entry, canonical, leaf_hash

Named = tuple[int, int] | str
"""Entries first to last inclusive, one of which must be named; or how a finding must begin."""


class Insider:
    """At work on one database. ``old``: a backup that he kept, of the same log."""

    def __init__(self, database: Database, rng: Random, old: Backup) -> None:
        self.database = database
        self.rng = rng
        self.old = old

    def attack(self, name: str) -> Named:
        """Carry out one of ``ATTACKS``."""
        return ATTACKS[name](self)

    def entries(self) -> list[Entry]:
        """Whole entries, in order; archived ones are left out."""
        rows = self.database.run(
            "SELECT stored FROM audit_entries WHERE stored IS NOT NULL ORDER BY leaf_index"
        )
        return [msgspec.json.decode(_bytes(row[0]), type=Entry) for row in rows]

    def pick(self) -> Entry:
        """Any whole entry but the last two."""
        return self.rng.choice(self.entries()[:-2])

    def rewrite(self, entries: list[Entry]) -> None:
        """Each row anew from its entry, with everything that depends on it."""
        rows: list[tuple[object, ...]] = []
        for one in entries:
            stored = canonical(one)
            columns = (one.at_us, one.actor, one.action, one.subject, one.target)
            rows.append((*columns, stored, leaf_hash(stored), one.index))
        self.database.many(
            """UPDATE audit_entries SET at_us = ?, actor = ?, action = ?, subject = ?, target = ?,
               stored = ?, leaf_hash = ? WHERE leaf_index = ?""",
            rows,
        )

    def cut(self, size: int) -> None:
        """The log ends there, and the head row says so."""
        self.database.run("DELETE FROM audit_entries WHERE leaf_index >= ?", size)
        self.database.run(
            """UPDATE audit_head SET size = ?,
               at_us = (SELECT at_us FROM audit_entries WHERE leaf_index = ?)""",
            size,
            size - 1,
        )


def edit_bytes(insider: Insider) -> Named:
    """Bytes of one entry, nothing else."""
    entry = insider.pick()
    forged = canonical(msgspec.structs.replace(entry, actor="nobody"))
    insider.database.run(
        "UPDATE audit_entries SET stored = ? WHERE leaf_index = ?", forged, entry.index
    )
    return entry.index, entry.index


def edit_column(insider: Insider) -> Named:
    """One column of one entry, nothing else."""
    entry = insider.pick()
    column = insider.rng.choice(("actor", "action", "subject", "target"))
    insider.database.run(
        f"UPDATE audit_entries SET {column} = ? WHERE leaf_index = ?", "nobody", entry.index
    )
    return entry.index, entry.index


def edit_whole(insider: Insider) -> Named:
    """One entry, with hash and columns: consistent in itself."""
    entry = insider.pick()
    insider.rewrite([msgspec.structs.replace(entry, actor="nobody")])
    return entry.index, entry.index


def edit_policy(insider: Insider) -> Named:
    """What a policy was for: its row, the digest of it in the entry, hash and columns."""
    entries = insider.entries()
    last = {one.subject: one for one in entries if one.action.startswith("policy.")}
    subject = insider.rng.choice(sorted(last))
    entry = last[subject]
    ((body,),) = insider.database.run("SELECT body FROM policies WHERE id = ?", subject)
    row = msgspec.json.decode(str(body))
    forged = msgspec.json.encode({**row, "reason": "nothing to see here"}).decode()
    insider.database.run("UPDATE policies SET body = ? WHERE id = ?", forged, subject)
    details = {**entry.details, "content": content(forged)}
    insider.rewrite([msgspec.structs.replace(entry, details=details)])
    return entry.index, entry.index


def delete_one(insider: Insider) -> Named:
    """One entry is gone; a hole is left."""
    entry = insider.pick()
    insider.database.run("DELETE FROM audit_entries WHERE leaf_index = ?", entry.index)
    return entry.index, entry.index


def delete_and_close(insider: Insider) -> Named:
    """One entry is gone, and all after it move up: every hash after it anew."""
    gone, entries = insider.pick(), insider.entries()
    moved = [_at(one, one.index - 1) for one in entries if one.index > gone.index]
    insider.rewrite(moved)
    insider.cut(entries[-1].index)
    return gone.index, entries[-1].index


def insert_one(insider: Insider) -> Named:
    """An act that never was, and all after it move down."""
    entries, before = insider.entries(), insider.pick()
    made = msgspec.structs.replace(before, action="rule.fired", subject="forged", details={})
    moved = [_at(one, one.index + 1) for one in entries if one.index >= before.index]
    stored = canonical(moved[-1])
    insider.database.run(
        """INSERT INTO audit_entries (leaf_index, at_us, actor, action, subject, target, stored,
           leaf_hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?)""",
        moved[-1].index,
        moved[-1].at_us,
        moved[-1].actor,
        moved[-1].action,
        moved[-1].subject,
        moved[-1].target,
        stored,
        leaf_hash(stored),
    )
    insider.rewrite([made, *moved[:-1]])
    insider.database.run("UPDATE audit_head SET size = ?", moved[-1].index + 1)
    return before.index, moved[-1].index


def reorder(insider: Insider) -> Named:
    """Two neighbours change places, each with its new index and hash."""
    entries = insider.entries()
    place = insider.rng.randrange(len(entries) - 2)
    one, two = entries[place], entries[place + 1]
    insider.rewrite(
        [
            msgspec.structs.replace(two, index=one.index, at_us=one.at_us),
            msgspec.structs.replace(one, index=two.index, at_us=two.at_us),
        ]
    )
    return one.index, two.index


def truncate(insider: Insider) -> Named:
    """The end is cut off, with the head row."""
    entries = insider.entries()
    size = insider.pick().index + 1
    insider.cut(size)
    return size, entries[-1].index


def hash_all_anew(insider: Insider) -> Named:
    """One actor's name everywhere, and every hash of the log anew."""
    entries = insider.entries()
    insider.rewrite(
        [msgspec.structs.replace(one, actor=one.actor.replace("ann", "eve")) for one in entries]
    )
    touched = [one.index for one in entries if "ann" in one.actor]
    return touched[0], touched[-1]


def put_old_back(insider: Insider) -> Named:
    """An old backup, whole, in place of what there is."""
    ((size,),) = insider.database.run("SELECT size FROM audit_head")
    insider.database.put_back(insider.old.saved)
    return insider.old.size, int(str(size)) - 1


def put_old_back_and_go_on(insider: Insider) -> Named:
    """An old backup, and then as many forged acts as there had been, and more."""
    first, last = _range(put_old_back(insider))
    ((at_us,),) = insider.database.run("SELECT at_us FROM audit_head")
    made = [
        Entry(
            index=index,
            at_us=int(str(at_us)),
            actor="eve",
            action="rule.fired",
            subject="forged",
            target="chat",
            details={},
        )
        for index in range(first, last + 3)
    ]
    with insider.database.disarmed():
        insider.database.many(
            """INSERT INTO audit_entries (leaf_index, at_us, actor, action, subject, target, stored,
               leaf_hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?)""",
            [
                (
                    one.index,
                    one.at_us,
                    one.actor,
                    one.action,
                    one.subject,
                    one.target,
                    canonical(one),
                    leaf_hash(canonical(one)),
                )
                for one in made
            ],
        )
        insider.database.run("UPDATE audit_head SET size = ?", last + 3)
    return first, last


def lose_bytes(insider: Insider) -> Named:
    """An entry's bytes are gone as if it were archived."""
    entry = insider.pick()
    insider.database.run("UPDATE audit_entries SET stored = NULL WHERE leaf_index = ?", entry.index)
    return entry.index, entry.index


def edit_override(insider: Insider) -> Named:
    """A row that an entry speaks of."""
    return _edit_row(insider, "overrides", "id", "override ")


def edit_baseline(insider: Insider) -> Named:
    """A version of what a person declared."""
    return _edit_row(insider, "baselines", "target", "baseline ")


def edit_segment(insider: Insider) -> Named:
    """What an engine had."""
    return _edit_row(insider, "segments", "seq", "segment ")


def delete_segment(insider: Insider) -> Named:
    """An engine never had it."""
    rows = insider.database.run("SELECT seq FROM segments ORDER BY seq")
    insider.database.run("DELETE FROM segments WHERE seq = ?", insider.rng.choice(rows)[0])
    return "segment "


def slip_a_key_in(insider: Insider) -> Named:
    """A way in."""
    ((body,), *_) = insider.database.run("SELECT body FROM keys")
    insider.database.run(
        "INSERT INTO keys (id, token_sha256, body) VALUES (?, ?, ?)", "key_mine", bytes(32), body
    )
    return "key key_mine"


def raise_a_mode(insider: Insider) -> Named:
    """The loop may do more than a person said."""
    insider.database.run("UPDATE modes SET mode = ?", "auto_")
    return "mode of "


def _edit_row(insider: Insider, table: str, key: str, named: str) -> Named:
    rows = insider.database.run(f"SELECT {key}, body FROM {table}")
    chosen, body = insider.rng.choice(rows)
    text = str(body)
    place = text.index('":') + 2
    forged = f"{text[:place]} {text[place:]}"
    insider.database.run(f"UPDATE {table} SET body = ? WHERE {key} = ?", forged, chosen)
    return named


def _at(entry: Entry, index: int) -> Entry:
    return msgspec.structs.replace(entry, index=index)


def _range(named: Named) -> tuple[int, int]:
    assert isinstance(named, tuple)
    return named


def _bytes(value: Any) -> bytes:
    return bytes(value)


ATTACKS: dict[str, Callable[[Insider], Named]] = {
    attack.__name__: attack
    for attack in (
        edit_bytes,
        edit_column,
        edit_whole,
        edit_policy,
        delete_one,
        delete_and_close,
        insert_one,
        reorder,
        truncate,
        hash_all_anew,
        put_old_back,
        put_old_back_and_go_on,
        lose_bytes,
        edit_override,
        edit_baseline,
        edit_segment,
        delete_segment,
        slip_a_key_in,
        raise_a_mode,
    )
}
WHOLE = frozenset({"put_old_back", "put_old_back_and_go_on"})
"""Attacks that see to the triggers themselves: the backup has them."""
LEAVES_KEPT = frozenset(
    {
        "edit_bytes",
        "edit_column",
        "lose_bytes",
        "edit_override",
        "edit_baseline",
        "edit_segment",
        "delete_segment",
        "slip_a_key_in",
        "raise_a_mode",
    }
)
"""Attacks that leave leaf hashes alone: the tree is the published one, so heads go on."""

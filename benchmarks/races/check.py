"""The audit, held against what the operators were told. Pure."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from benchmarks.races.books import ACTIONS, WORDLESS, Act, Key, Kind
from policies.audit import Entry

SHOWN: Final = 8
"""Faults of one kind that are written out."""

MARK: Final = re.compile(r"race-\d+-\d+\.")
KINDS: Final[dict[str, Kind]] = {
    action: kind for kind, actions in ACTIONS.items() for action in actions
}


def compare(acts: Sequence[Act], entries: Sequence[Entry], people: Iterable[str]) -> list[str]:
    """Every disagreement, in words; none is what is wanted. ``people``: ids of the operators."""
    found = Faults()
    told = _told(acts)
    written = _written(acts, entries, frozenset(people))
    for key in sorted({*told, *written}):
        _one(found, key, told.get(key, Counter()), written.get(key, []))
    _revisions(found, acts, entries)
    return found.words()


class Faults:
    """Disagreements by kind."""

    def __init__(self) -> None:
        self._by_kind: defaultdict[str, list[str]] = defaultdict(list)

    def add(self, kind: str, detail: str) -> None:
        """One more."""
        self._by_kind[kind].append(detail)

    def words(self) -> list[str]:
        """A line of each kind."""
        return [
            f"{kind}: {len(details)} ({'; '.join(details[:SHOWN])})"
            for kind, details in self._by_kind.items()
        ]


def _told(acts: Iterable[Act]) -> dict[Key, Counter[str]]:
    """How often each act was answered how."""
    told: defaultdict[Key, Counter[str]] = defaultdict(Counter)
    for act in acts:
        told[act.key][act.outcome] += 1
    return dict(told)


def _written(
    acts: Iterable[Act], entries: Sequence[Entry], people: frozenset[str]
) -> dict[Key, list[Entry]]:
    """The entries in an operator's name, by the act that they are of.

    What follows from another act is no act of its own: a hold pauses what is on trial, a release
    lets it go on, a rollback ends overrides, a pin replaces the one before it, and who pauses what
    something else had paused takes it out of that pause first.
    """
    written: defaultdict[Key, list[Entry]] = defaultdict(list)
    kinds = {act.mark: act.kind for act in acts}
    of_others = {(e.actor, e.at_us) for e in entries if _lets_others_go_on(e)}
    for entry in entries:
        kind = KINDS.get(entry.action)
        if kind is None or entry.actor not in people:
            continue
        if kind in WORDLESS:
            if (entry.actor, entry.at_us) not in of_others:
                written[Key(entry.actor, kind, entry.subject)].append(entry)
            continue
        mark = _mark(entry)
        if mark is not None and kinds.get(mark, kind) == kind:
            written[Key(entry.actor, kind, mark)].append(entry)
    return dict(written)


def _lets_others_go_on(entry: Entry) -> bool:
    return entry.action.startswith("control.") or entry.action == "policy.paused"


def _mark(entry: Entry) -> str | None:
    """The mark in an entry's words; None where it has none, so follows from another act."""
    found = MARK.search(msgspec.json.encode(entry.details).decode())
    return None if found is None else found.group()


def _one(found: Faults, key: Key, told: Mapping[str, int], entries: Sequence[Entry]) -> None:
    """One act: acknowledged ones are there, and beside them at most those without an answer."""
    least = told.get("accepted", 0)
    most = least + told.get("unknown", 0)
    where = f"{key.kind} {key.by} by {key.who}: {dict(told)}, entries {[e.index for e in entries]}"
    if len(entries) < least:
        found.add("acknowledged and not recorded", where)
    elif len(entries) > most:
        kind = "recorded twice" if most else "recorded though it never was acknowledged"
        found.add(kind, where)


def _revisions(found: Faults, acts: Iterable[Act], entries: Iterable[Entry]) -> None:
    """The revision that an answer showed is the one that the person's own entry made."""
    made = {(e.subject, e.details.get("rev")): e for e in entries if "rev" in e.details}
    for act in acts:
        if act.outcome != "accepted" or act.rev is None or act.made is None:
            continue
        entry = made.get((act.made, act.rev))
        if entry is None:
            found.add("a revision that was shown is not recorded", f"{act.made} rev {act.rev}")
        elif entry.actor != act.who or KINDS.get(entry.action) not in (act.kind, None):
            found.add(
                "a revision that was shown is another's",
                f"{act.kind} {act.made} rev {act.rev} by {act.who}: {entry.action} {entry.actor}",
            )

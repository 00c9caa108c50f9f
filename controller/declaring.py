"""Declared changes as use cases: people and pipelines say what they do to a target beside us."""

from __future__ import annotations

import os

from controller.control import ControlOperations
from controller.following import said
from controller.state import Declared
from controller.store.port import Principal, Tx
from policies.changes import ChangeKind, DeclaredChange
from policies.ids import new_id
from signals.errors import Conflict, Rejected
from signals.events import MICROS


class ChangeOperations(ControlOperations):
    """Declare a change, end one."""

    def declare_change(
        self,
        target: str,
        kind: ChangeKind,
        words: str,
        *,
        by: Principal,
        from_us: int | None = None,
        until_us: int | None = None,
        duration_s: int | None = None,
    ) -> DeclaredChange:
        """Trials of the target stand still while it goes on, and ``settle_s`` after it.

        Without ``until_us`` or ``duration_s`` it is open until somebody ends it.
        """
        declared, now_us = self.target(target), self._clock()
        begins_us = now_us if from_us is None else from_us
        if duration_s is not None:
            until_us = begins_us + duration_s * MICROS
        _check_span(declared, begins_us, until_us, now_us)
        change = DeclaredChange(
            id=new_id("chg", now_us, os.urandom(8)),
            target=target,
            kind=kind,
            words=said(words),
            by=by.id,
            from_us=begins_us,
            until_us=until_us,
        )
        with self._store.write() as tx:
            _check_room(tx, declared, now_us)
            change = tx.add_declared_change(change, at_us=now_us)
        self._wake()
        return change

    def end_change(self, change_id: str, *, by: Principal) -> DeclaredChange:
        """It is over now. Raises ``NotFound``, ``Conflict`` when it is over already."""
        with self._store.write() as tx:
            ended = tx.end_declared_change(change_id, actor=by.id, at_us=self._clock())
        self._wake()
        return ended


def _check_span(declared: Declared, from_us: int, until_us: int | None, now_us: int) -> None:
    most_us = declared.guardrails.max_change_s * MICROS
    if abs(from_us - now_us) > most_us:
        raise Rejected(
            "the change begins too far from now",
            field="from_us",
            value=from_us,
            allowed=f"within {declared.guardrails.max_change_s} s (guardrails.max_change_s)",
        )
    if until_us is not None and not from_us < until_us <= from_us + most_us:
        raise Rejected(
            "a change ends after it began, and not too late",
            field="until_us",
            value=until_us,
            allowed=f"after {from_us}, at most {declared.guardrails.max_change_s} s later",
        )


def _check_room(tx: Tx, declared: Declared, now_us: int) -> None:
    most = declared.guardrails.max_changes
    going_on = tx.declared_changes(target=declared.name, from_us=now_us, limit=most)
    if len(going_on) >= most:
        raise Conflict(
            f"{len(going_on)} changes of {declared.name} are open or to come; end some first",
            field="target",
            value=declared.name,
            allowed=f"at most {most} (guardrails.max_changes)",
        )

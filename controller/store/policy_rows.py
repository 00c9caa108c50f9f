"""Policies and their moves: each move is checked, compared, set and audited in one go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from heapq import merge
from itertools import islice
from typing import Any, Final

import msgspec
from sqlalchemy import ColumnElement, func, select

from controller.store.audit_rows import AuditRows
from controller.store.direct import sent
from controller.store.port import PolicyFilter
from controller.store.prepared import sure
from controller.store.rows import Soon, bounded, content, decoded, encoded, sifted, written
from controller.store.tables import policies
from policies.ids import first_id
from policies.lifecycle import FINAL, STATES, State, check_move
from policies.policy import Policy
from signals.errors import Broken, Conflict, NotFound

IDENTITY: Final = frozenset(
    {"id", "target", "knob", "state", "rev", "created_us", "updated_us", "proposed_by"}
)
"""Fields that ``changes`` may not name: they never change, or only the move itself sets them."""
ENTRY_KEYS: Final = frozenset({"before", "after", "rev", "content", "changes", "policy"})
"""Members of an audit entry's details that the store writes; a caller's own may not hide them."""

PROBED: Final = 1000
"""Policies of one filter that are counted to see which leads."""


@cache
def _setting(names: tuple[str, ...], style: str, *, same: bool) -> str:
    """Set these columns of one policy, at its revision; ``same``: and only where its body is it.

    A body may also be the same record as an older program wrote it; then the revision decides.
    """
    given = {name: style.format(name) for name in (*names, "id_", "rev_", "body_")}
    setting = ", ".join(f"{name} = {given[name]}" for name in names)
    found = f"id = {given['id_']} AND rev = {given['rev_']}"
    also = f" AND body = {given['body_']}" if same else ""
    return f"UPDATE policies SET {setting} WHERE {found}{also}"


STYLES: Final = {"sqlite": ":{}", "postgresql": "%({})s"}
"""How a driver's statements name their values."""


class PolicyRows(AuditRows):
    """The ``policies`` table."""

    def policy(self, policy_id: str) -> Policy:
        """Raises ``NotFound``."""
        query = select(policies.c.body).where(policies.c.id == policy_id)
        body = self._connection.execute(query).scalar_one_or_none()
        if body is None:
            raise NotFound(f"no policy {policy_id}", field="policy_id", value=policy_id)
        return decoded(body, Policy)

    def policies(
        self,
        *,
        target: str | None = None,
        states: Sequence[State] | None = None,
        limit: int = 200,
        before: str | None = None,
        wanted: PolicyFilter | None = None,
    ) -> list[Policy]:
        """Newest first; ``before`` is the last id of the page before."""
        wanted, limit = wanted or PolicyFilter(), bounded(limit)
        given = _given(wanted, target, states)
        bounds = _bounds(wanted, before)
        lead = self._leading(given)
        if lead != "state":
            return self._bodies([*bounds, *_filters(given, lead)], limit)
        if target is None:
            given |= {"target": tuple(self._targets())}
        if FINAL.isdisjoint(given["state"]):  # Few at a time: policies pile up in final ones alone.
            return self._bodies([*bounds, *_filters(given, lead)], limit, few=True)
        found = [
            self._ids(
                [*bounds, *_filters({**given, "target": (at,), "state": (state,)}, lead)], limit
            )
            for at in given["target"]
            for state in given["state"]
        ]
        latest = list(islice(merge(*found, reverse=True), limit))
        return self._bodies([policies.c.id.in_(latest)], limit) if latest else []

    def _leading(self, given: Mapping[str, tuple[str, ...]]) -> str | None:
        """The filter that the fewest policies meet, as far as a bounded look says; None: none."""
        if len(given) < 2 or given.keys() == {"state", "target"}:
            return next(iter(given), None)
        return min(given, key=lambda name: self._few(name, given))

    def _few(self, name: str, given: Mapping[str, tuple[str, ...]]) -> int:
        """How many policies meet it; no more than ``PROBED`` are counted."""
        asked = {name: given[name]}
        if name == "state":
            asked |= {"target": given.get("target") or tuple(self._targets())}
        some = select(policies.c.id).where(*_filters(asked, name)).limit(PROBED).subquery()
        return int(self._connection.execute(select(func.count()).select_from(some)).scalar_one())

    def _targets(self) -> list[str]:
        """Each target that ever had a policy; one look in the index for each."""
        names, beyond = list[str](), policies.c.target >= ""
        while True:
            query = select(policies.c.target).where(beyond).order_by(policies.c.target).limit(1)
            name = self._connection.execute(query).scalar_one_or_none()
            if name is None:
                return names
            names.append(name)
            beyond = policies.c.target > name

    def _ids(self, where: Iterable[ColumnElement[bool]], limit: int) -> list[str]:
        query = select(policies.c.id).where(*where).order_by(policies.c.id.desc()).limit(limit)
        return list(self._connection.execute(query).scalars())

    def _bodies(
        self, where: Iterable[ColumnElement[bool]], limit: int, *, few: bool = False
    ) -> list[Policy]:
        """``few``: what meets the filters is sorted.

        Else SQLite may walk an index that is in order already, through all that a target ever had.
        """
        by = sifted(policies.c.id) if few else policies.c.id
        query = select(policies.c.body).where(*where).order_by(by.desc()).limit(limit)
        return [decoded(body, Policy) for body in self._connection.execute(query).scalars()]

    def add_policy(self, policy: Policy) -> Policy:
        """Insert a new proposal. Raises ``Conflict`` where its id is taken, or it is not new."""
        if policy.state != "proposed" or policy.rev != 0:
            raise Conflict(
                f"a new policy is proposed, at rev 0; {policy.id} is {policy.state}",
                field="state",
                value=policy.state,
                allowed="proposed",
            )
        row = row_of(policy)
        if not self._added(policies, row):
            raise Conflict(f"policy {policy.id} exists already", field="id", value=policy.id)
        self._record(
            at_us=policy.created_us,
            actor=policy.proposed_by,
            action="policy.proposed",
            subject=policy.id,
            target=policy.target,
            details={
                "rev": 0,
                "content": content(row["body"]),
                "policy": msgspec.to_builtins(policy),
            },
        )
        return policy

    def move(
        self,
        policy: Policy,
        after: State,
        *,
        actor: str,
        at_us: int,
        details: dict[str, Any] | None = None,
        **changes: Any,
    ) -> Policy:
        """Raises ``Conflict`` for an illegal move or a lost race; then nothing has changed."""
        _check_names(details or {}, changes)
        try:
            check_move(policy.id, policy.state, after)
        except Conflict:
            self._unchanged(policy)
            raise
        moved = msgspec.structs.replace(
            policy, state=after, rev=policy.rev + 1, updated_us=at_us, **changes
        )
        extra = {**(details or {}), "before": policy.state, "after": after}
        self._write(policy, moved, f"policy.{after}", actor, at_us, {**extra, "changes": changes})
        return moved

    def amend(self, policy: Policy, what: str, *, actor: str, at_us: int, **changes: Any) -> Policy:
        """Raises ``Conflict`` for a lost race; then nothing has changed."""
        _check_names({}, changes)
        if what in STATES:
            raise Broken(f"{what} is a state; move the policy there")
        amended = msgspec.structs.replace(policy, rev=policy.rev + 1, updated_us=at_us, **changes)
        self._write(policy, amended, f"policy.{what}", actor, at_us, {"changes": changes})
        return amended

    def _unchanged(self, policy: Policy) -> Policy:
        """The policy as it is stored, which is the very record that the caller has."""
        stored = self.policy(policy.id)
        if stored.rev != policy.rev:
            raise _lost(stored, policy)
        if stored != policy:
            raise Broken(f"policy {policy.id} was altered outside a move; pass it as changes")
        return stored

    def _write(
        self,
        before: Policy,
        moved: Policy,
        action: str,
        actor: str,
        at_us: int,
        details: dict[str, Any],
    ) -> None:
        """Compare the whole record and set it; only where that fails is it read, to say why."""
        self._check_writing()
        row, style = _changed(before, moved), STYLES[self._dialect]
        given = {**row, "id_": before.id, "rev_": before.rev}
        text = _setting(tuple(row), style, same=True)

        def told(changed: int) -> None:
            if changed != 1:
                self._unchanged(before)
                again = _setting(tuple(row), style, same=False)
                if sent(self._connection, again, given) != 1:
                    raise _lost(self.policy(before.id), before)

        self._change(Soon((text, {**given, "body_": written(before)}), told, sure(text)))
        self._record(
            at_us=at_us,
            actor=actor,
            action=action,
            subject=moved.id,
            target=moved.target,
            details={
                **msgspec.to_builtins(details),
                "rev": moved.rev,
                "content": content(row["body"]),
            },
        )


def _given(
    wanted: PolicyFilter, target: str | None, states: Sequence[State] | None
) -> dict[str, tuple[str, ...]]:
    """The filters by column, in the order in which they lead where many policies meet each."""
    one = {
        "proposed_by": wanted.proposed_by,
        "knob": wanted.knob,
        "scope": wanted.scope,
        "verdict": wanted.verdict,
        "origin": wanted.origin,
    }
    state = {} if states is None else {"state": tuple(dict.fromkeys(states))}
    there = {} if target is None else {"target": (target,)}
    return {**state, **there, **{name: (one,) for name, one in one.items() if one is not None}}


def _bounds(wanted: PolicyFilter, before: str | None) -> list[ColumnElement[bool]]:
    """Ids rise with the time of the proposal, so a span of time is a span of ids."""
    found = [] if before is None else [policies.c.id < before]
    if wanted.from_us is not None:
        found.append(policies.c.id >= first_id("pol", wanted.from_us))
    if wanted.to_us is not None:
        found.append(policies.c.id < first_id("pol", wanted.to_us))
    return found


def _filters(given: Mapping[str, tuple[str, ...]], lead: str | None) -> list[ColumnElement[bool]]:
    """``lead`` on its bare column, which an index serves; the others on what none can."""
    bare = ("target", "state") if lead == "state" else (lead,)
    columns = {
        name: policies.c[name] if name in bare else sifted(policies.c[name]) for name in given
    }
    return [columns[name].in_(values) for name, values in given.items()]


def row_of(policy: Policy) -> dict[str, Any]:
    """A policy as the table holds it."""
    return {**_columns(policy), "body": encoded(policy)}


def _columns(policy: Policy) -> dict[str, Any]:
    """All but the body: what policies are found and guarded by."""
    return {
        "id": policy.id,
        "target": policy.target,
        "knob": policy.knob,
        "state": policy.state,
        "rev": policy.rev,
        "updated_us": policy.updated_us,
        "scope": policy.scope,
        "origin": policy.origin.kind,
        "proposed_by": policy.proposed_by,
        "verdict": policy.verdict,
    }


def _changed(before: Policy, moved: Policy) -> dict[str, Any]:
    """The columns to set: SQLite writes each index of a column that is set, even to what it was."""
    was = _columns(before)
    row = {name: value for name, value in _columns(moved).items() if value != was[name]}
    return {**row, "body": encoded(moved)}


def _check_names(details: dict[str, Any], changes: dict[str, Any]) -> None:
    """Raise ``Broken`` for names that only the store may write, or that a policy has not."""
    unknown = set(changes) - (set(Policy.__struct_fields__) - IDENTITY)
    if unknown:
        raise Broken(f"a move can't change {', '.join(sorted(unknown))}")
    hiding = ENTRY_KEYS & set(details)
    if hiding:
        raise Broken(f"a move writes {', '.join(sorted(hiding))} itself; name the detail otherwise")


def _lost(now: Policy, seen: Policy) -> Conflict:
    return Conflict(
        f"policy {now.id} has moved on: it is {now.state} at rev {now.rev}, not rev {seen.rev}",
        field="rev",
        value=seen.rev,
        allowed=now.rev,
    )

"""What people declare of a target: changes beside Trimtab, and versions of the baseline."""

from __future__ import annotations

import msgspec
from sqlalchemy import CompoundSelect, select, update

from controller.store.audit_rows import AuditRows
from controller.store.rows import bounded, content, decoded, encoded
from controller.store.tables import baselines, declared_changes
from policies.baseline import Baseline
from policies.changes import DeclaredChange
from signals.errors import Conflict, NotFound


class DeclarationRows(AuditRows):
    """The ``declared_changes`` and ``baselines`` tables."""

    def declared_change(self, change_id: str) -> DeclaredChange:
        """Raises ``NotFound``."""
        query = select(declared_changes.c.body).where(declared_changes.c.id == change_id)
        body = self._connection.execute(query).scalar_one_or_none()
        if body is None:
            raise NotFound(f"no change {change_id}", field="change_id", value=change_id)
        return decoded(body, DeclaredChange)

    def declared_changes(
        self,
        *,
        target: str | None = None,
        from_us: int | None = None,
        to_us: int | None = None,
        before: str | None = None,
        limit: int = 200,
    ) -> list[DeclaredChange]:
        """Newest first."""
        columns = declared_changes.c
        query = select(columns.body)
        if target is not None:
            query = query.where(columns.target == target)
        if from_us is not None:
            query = query.where(columns.id.in_(_not_over(target, from_us)))
        if to_us is not None:
            query = query.where(columns.from_us < to_us)
        if before is not None:
            query = query.where(columns.id < before)
        query = query.order_by(columns.id.desc()).limit(bounded(limit))
        return [decoded(body, DeclaredChange) for body in self._connection.execute(query).scalars()]

    def add_declared_change(self, change: DeclaredChange, *, at_us: int) -> DeclaredChange:
        """Raises ``Conflict`` where the id is taken."""
        body = encoded(change)
        row = {
            "id": change.id,
            "target": change.target,
            "from_us": change.from_us,
            "until_us": change.until_us,
            "body": body,
        }
        if not self._added(declared_changes, row):
            raise Conflict(f"change {change.id} exists already", field="id")
        self._audit_change(change, "change.declared", body, change.by, at_us)
        return change

    def end_declared_change(self, change_id: str, *, actor: str, at_us: int) -> DeclaredChange:
        """Raises ``NotFound``, ``Conflict`` when it is over already."""
        change = self.declared_change(change_id)
        if change.until_us is not None and change.until_us <= at_us:
            raise Conflict(f"change {change_id} is over already", field="until_us")
        ended = msgspec.structs.replace(change, until_us=max(at_us, change.from_us))
        body = encoded(ended)
        before = declared_changes.c.until_us.is_not_distinct_from(change.until_us)
        same = (declared_changes.c.id == change_id, before)
        values = {"until_us": ended.until_us, "body": body}
        connection = self._for_writing()
        if connection.execute(update(declared_changes).where(*same).values(values)).rowcount != 1:
            raise Conflict(f"change {change_id} was ended by somebody else", field="until_us")
        self._audit_change(ended, "change.ended", body, actor, at_us)
        return ended

    def baseline(self, target: str) -> Baseline | None:
        """The version in force."""
        query = select(baselines.c.body).where(baselines.c.target == target)
        query = query.order_by(baselines.c.version.desc()).limit(1)
        body = self._connection.execute(query).scalar_one_or_none()
        return None if body is None else decoded(body, Baseline)

    def baselines(self, target: str) -> list[Baseline]:
        """Oldest first."""
        query = select(baselines.c.body).where(baselines.c.target == target)
        query = query.order_by(baselines.c.version)
        return [decoded(body, Baseline) for body in self._connection.execute(query).scalars()]

    def declare_baseline(self, baseline: Baseline) -> Baseline:
        """What is in force already stays as it is."""
        now = self.baseline(baseline.target)
        if now is not None and _same(now, baseline):
            return now
        last = 0 if now is None else now.version
        if baseline.version != last + 1:
            raise Conflict(
                f"the baseline of {baseline.target} is at version {last}",
                field="version",
                value=baseline.version,
                allowed=last + 1,
            )
        body = encoded(baseline)
        row = {
            "target": baseline.target,
            "version": baseline.version,
            "from_us": baseline.from_us,
            "body": body,
        }
        if not self._added(baselines, row):
            raise Conflict(f"{baseline.target} has a version {baseline.version}", field="version")
        self._record(
            at_us=baseline.from_us,
            actor=baseline.by,
            action="baseline.declared",
            subject=f"{baseline.target}@{baseline.version}",
            target=baseline.target,
            details={
                "rev": 0,
                "content": content(body),
                "baseline": msgspec.to_builtins(baseline),
            },
        )
        return baseline

    def _audit_change(
        self, change: DeclaredChange, action: str, body: str, actor: str, at_us: int
    ) -> None:
        self._record(
            at_us=at_us,
            actor=actor,
            action=action,
            subject=change.id,
            target=change.target,
            details={
                "rev": int(action == "change.ended"),
                "content": content(body),
                "change": msgspec.to_builtins(change),
            },
        )


def _not_over(target: str | None, from_us: int) -> CompoundSelect[str]:
    """Ids of changes that have no end, and of those that end later: two ranges of one index."""
    columns = declared_changes.c
    there = [] if target is None else [columns.target == target]
    endless = select(columns.id).where(*there, columns.until_us.is_(None))
    return endless.union_all(select(columns.id).where(*there, columns.until_us > from_us))


def _same(now: Baseline, wanted: Baseline) -> bool:
    return (now.name, now.settings, now.managed_by) == (
        wanted.name,
        wanted.settings,
        wanted.managed_by,
    )

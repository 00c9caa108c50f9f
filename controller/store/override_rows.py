"""Overrides: set once, ended once; each with its audit entry, which binds the row."""

from __future__ import annotations

import msgspec
from sqlalchemy import select, update

from controller.store.audit_rows import AuditRows
from controller.store.rows import bounded, content, decoded, encoded
from controller.store.tables import overrides
from policies.overrides import Override, OverrideState
from signals.errors import Conflict, NotFound


class OverrideRows(AuditRows):
    """The ``overrides`` table."""

    def override(self, override_id: str) -> Override:
        """Raises ``NotFound``."""
        query = select(overrides.c.body).where(overrides.c.id == override_id)
        body = self._connection.execute(query).scalar_one_or_none()
        if body is None:
            raise NotFound(f"no override {override_id}", field="override_id", value=override_id)
        return decoded(body, Override)

    def overrides(
        self,
        *,
        target: str | None = None,
        state: OverrideState | None = None,
        before: str | None = None,
        limit: int = 200,
    ) -> list[Override]:
        """Newest first; ids rise with time."""
        query = select(overrides.c.body)
        if target is not None:
            query = query.where(overrides.c.target == target)
        if state is not None:
            query = query.where(overrides.c.state == state)
        if before is not None:
            query = query.where(overrides.c.id < before)
        query = query.order_by(overrides.c.id.desc()).limit(bounded(limit))
        return [decoded(body, Override) for body in self._connection.execute(query).scalars()]

    def add_override(self, override: Override) -> Override:
        """Raises ``Conflict`` where the id is taken, or it is not new."""
        if override.state != "active" or override.rev != 0:
            raise Conflict("a new override is active, at rev 0", field="state")
        row = _row(override)
        if not self._added(overrides, row):
            raise Conflict(f"override {override.id} exists already", field="id")
        self._record(
            at_us=override.created_us,
            actor=override.by,
            action="override.set",
            subject=override.id,
            target=override.target,
            details={
                "rev": 0,
                "content": content(str(row["body"])),
                "words": override.words(),
                "override": msgspec.to_builtins(override),
            },
        )
        return override

    def end_override(self, override: Override, *, cause: str, actor: str, at_us: int) -> Override:
        """Raises ``Conflict`` when it has ended already."""
        ended = msgspec.structs.replace(
            override,
            state="ended",
            ended_us=at_us,
            ended_by=actor,
            cause=cause,
            rev=override.rev + 1,
        )
        row = _row(ended)
        same = (
            overrides.c.id == override.id,
            overrides.c.rev == override.rev,
            overrides.c.state == "active",
        )
        if self._for_writing().execute(update(overrides).where(*same).values(row)).rowcount != 1:
            raise Conflict(
                f"override {override.id} has ended already", field="rev", value=override.rev
            )
        self._record(
            at_us=at_us,
            actor=actor,
            action="override.ended",
            subject=ended.id,
            target=ended.target,
            details={
                "rev": ended.rev,
                "content": content(str(row["body"])),
                "words": ended.words(),
                "cause": cause,
            },
        )
        return ended


def _row(override: Override) -> dict[str, object]:
    return {
        "id": override.id,
        "target": override.target,
        "state": override.state,
        "rev": override.rev,
        "expires_us": override.expires_us,
        "body": encoded(override),
    }

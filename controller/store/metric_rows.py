"""Metric definitions: a new version is a new row, and the row before it is retired with it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import msgspec
from sqlalchemy import Row, Select, insert, select, update

from controller.metric_versions import next_version
from controller.store.audit_rows import AuditRows
from controller.store.tables import metric_definitions
from signals.definitions import Definition, ManagedBy
from signals.errors import NotFound
from signals.settings import MetricSettings

ROW = metric_definitions.c


class MetricRows(AuditRows):
    """The ``metric_definitions`` table."""

    def definitions(self) -> list[Definition]:
        """Those in force, by name."""
        query = select(metric_definitions).where(ROW.retired_us.is_(None)).order_by(ROW.name)
        return list(self._definitions(query))

    def versions(self, name: str) -> list[Definition]:
        """Oldest first."""
        query = select(metric_definitions).where(ROW.name == name).order_by(ROW.version)
        return list(self._definitions(query))

    def definition(self, name: str, version: int) -> Definition | None:
        """One version, in force or not."""
        query = select(metric_definitions).where(ROW.name == name, ROW.version == version)
        return next(self._definitions(query), None)

    def declare(
        self,
        name: str,
        metric: MetricSettings,
        *,
        managed_by: ManagedBy,
        actor: str,
        at_us: int,
    ) -> Definition:
        """Raises ``Conflict``."""
        latest = self._latest(name)
        made = next_version(latest, name, metric, managed_by=managed_by, at_us=at_us)
        if made is latest:
            return made
        details: dict[str, Any] = {}
        action = "metric.declared"
        if latest is not None and latest.retired_us is None:
            action = "metric.changed"
            details["before"] = self._end(latest, made.from_us)
        row = _row(made)
        self._for_writing().execute(insert(metric_definitions).values(row))
        details |= {"definition": _shown(made), "content": definition_content(row)}
        self._audit_metric(made, action, actor, at_us, details)
        return made

    def retire(self, name: str, *, actor: str, at_us: int) -> Definition:
        """Raises ``NotFound`` when none is in force."""
        latest = self._latest(name)
        if latest is None or latest.retired_us is not None:
            raise NotFound(f"no metric {name} is in force", field="name", value=name)
        retired_us = max(at_us, latest.from_us)
        details = self._end(latest, retired_us)
        retired = msgspec.structs.replace(latest, retired_us=retired_us)
        self._audit_metric(retired, "metric.retired", actor, at_us, details)
        return retired

    def _end(self, one: Definition, retired_us: int) -> dict[str, Any]:
        """Set the one thing of a version that may be set later; its version and new content.

        The rest of the row is taken as it lies: what an older program wrote stays as it was.
        """
        connection = self._for_writing()
        same = (ROW.name == one.name, ROW.version == one.version)
        row = dict(connection.execute(select(metric_definitions).where(*same)).one()._mapping)
        row["retired_us"] = retired_us
        connection.execute(update(metric_definitions).where(*same).values(retired_us=retired_us))
        return {"version": one.version, "content": definition_content(row)}

    def _latest(self, name: str) -> Definition | None:
        query = select(metric_definitions).where(ROW.name == name)
        return next(self._definitions(query.order_by(ROW.version.desc()).limit(1)), None)

    def _definitions(self, query: Select[Any]) -> Iterator[Definition]:
        for row in self._connection.execute(query):
            yield _definition(row)

    def _audit_metric(
        self, one: Definition, action: str, actor: str, at_us: int, details: dict[str, Any]
    ) -> None:
        self._record(
            at_us=at_us, actor=actor, action=action, subject=one.name, target="", details=details
        )


def definition_content(row: dict[str, Any]) -> str:
    """SHA-256, in hex, of a definition's whole row; the audit holds it for every change."""
    cells = [row[column.name] for column in metric_definitions.columns]
    return hashlib.sha256(msgspec.json.encode(cells)).hexdigest()


def _definition(row: Row[Any]) -> Definition:
    return Definition(
        name=row.name,
        version=row.version,
        metric=MetricSettings.model_validate_json(row.body),
        managed_by=row.managed_by,
        from_us=row.from_us,
        retired_us=row.retired_us,
    )


def _row(one: Definition) -> dict[str, Any]:
    return {
        "name": one.name,
        "version": one.version,
        "body": one.metric.model_dump_json(),
        "managed_by": one.managed_by,
        "owner": one.metric.owner,
        "from_us": one.from_us,
        "retired_us": one.retired_us,
    }


def _shown(one: Definition) -> dict[str, Any]:
    """A definition for the audit's readers."""
    return {
        "version": one.version,
        "managed_by": one.managed_by,
        "from_us": one.from_us,
        **one.metric.model_dump(),
    }

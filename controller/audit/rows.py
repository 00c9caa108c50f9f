"""Every history of a log, and the rows that each of them is checked with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from controller.audit.act_histories import (
    KINDS,
    SEGMENTS,
    BodyHistories,
    ControlHistories,
    ModeHistories,
    SegmentHistories,
)
from controller.audit.histories import KeyHistories, MetricHistories, PolicyHistories
from controller.store.audit_file import AuditFile
from policies.audit import Entry

Checked = Iterator[Iterator[str]]


class Histories:
    """All of them: ``see`` each entry, then draw the ``checks`` of all rows, then ``gone``."""

    def __init__(self) -> None:
        self._policies = PolicyHistories()
        self._keys = KeyHistories()
        self._metrics = MetricHistories()
        self._bodies = tuple(BodyHistories(kind) for kind in KINDS)
        self._segments = SegmentHistories()
        self._modes = ModeHistories()
        self._controls = ControlHistories()
        self._of_family: dict[str, Any] = {
            "policy": self._policies,
            "key": self._keys,
            "metric": self._metrics,
            "settings": self._segments,
            "mode": self._modes,
            "control": self._controls,
            **{one.kind.family.partition(".")[0]: one for one in self._bodies},
        }

    def see(self, entry: Entry) -> Iterable[str]:
        """Take in one entry; findings where it is no legal next step."""
        history = self._of_family.get(entry.action.partition(".")[0])
        return () if history is None else history.see(entry)

    def checks(self, file: AuditFile) -> Iterator[tuple[str, Checked]]:
        """By table: each row's findings."""
        yield "policies", _each(self._policies.check, file.policies())
        yield "keys", _each(self._keys.check, file.keys())
        yield "metric_definitions", _each(self._metrics.check, file.definitions())
        for history in self._bodies:
            kind = history.kind
            rows = file.table(kind.table, kind.names, order=kind.order)
            yield kind.table, _each(history.check, rows)
        segments = file.table(SEGMENTS.table, SEGMENTS.names, order=SEGMENTS.order)
        yield SEGMENTS.table, _each(self._segments.check, segments)
        modes = file.table("modes", ("target", "knob", "mode"), order="target, knob")
        yield "modes", _each(self._modes.check, modes)
        controls = file.table("controls", ("target", "body"), order="target")
        yield "controls", _each(self._controls.check, controls)

    def gone(self) -> Iterator[str]:
        """Rows that the audit knows and none was checked of."""
        for history in self._all():
            yield from history.gone()

    def _all(self) -> tuple[Any, ...]:
        return (
            self._policies,
            self._keys,
            self._metrics,
            *self._bodies,
            self._segments,
            self._modes,
            self._controls,
        )


def _each(check: Callable[[Any], Iterator[str]], rows: Iterator[Any]) -> Checked:
    for row in rows:
        yield check(row)

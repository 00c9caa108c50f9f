"""Metric definitions: who may change them, and what a configuration declares.

A metric belongs to the team that is its ``owner``: keys of that team change it, admins change all,
and one without an owner is the admins' alone. A metric that is built in or that a file declares is
changed there. What may follow what is in ``controller.metric_versions``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from controller.keys import ANY, covers
from controller.metric_checks import check
from controller.metric_versions import in_force
from controller.settings import DEFAULT_METRICS, Settings
from controller.store.port import Principal, Tx
from signals.definitions import Definition, ManagedBy
from signals.errors import Conflict, Denied, NotFound
from signals.settings import MetricSettings

DECLARED: Final[tuple[ManagedBy, ...]] = ("built_in", "file")


class Declared(Struct, frozen=True, kw_only=True):
    """One metric as a configuration has it, and where from."""

    metric: MetricSettings
    managed_by: ManagedBy


def declared_in(settings: Settings) -> dict[str, Declared]:
    """Every metric of a configuration: its file's, and the built-in ones it does not change."""
    return {
        name: Declared(
            metric=metric,
            managed_by="built_in" if metric == DEFAULT_METRICS.get(name) else "file",
        )
        for name, metric in settings.metrics.items()
    }


def declare(
    tx: Tx,
    name: str,
    metric: MetricSettings,
    *,
    by: Principal,
    at_us: int,
    most: int,
) -> Definition:
    """Declare or change a metric by hand. An owner that is not given stays, or is the caller's.

    Raises ``Rejected`` as ``check``, ``Denied`` where it is not his, ``Conflict`` where a file or
    the product declares it, where it would change what is for ever, or where ``most`` are in force.
    """
    latest = next(reversed(tx.versions(name)), None)
    metric = _owned(latest, metric, by)
    _check_owner(latest, name, by)
    _check_new_owner(metric, by)
    _check_managed(latest)
    check(name, metric)
    if (latest is None or not in_force(latest)) and len(tx.definitions()) >= most:
        raise Conflict(
            f"{most} metrics are in force; retire one first", field="name", value=name, allowed=most
        )
    return tx.declare(name, metric, managed_by="api", actor=by.id, at_us=at_us)


def retire(tx: Tx, name: str, *, by: Principal, at_us: int) -> Definition:
    """Take a metric out of force by hand. Raises ``NotFound``, ``Denied``, ``Conflict``."""
    latest = next(reversed(tx.versions(name)), None)
    if latest is None or not in_force(latest):
        raise NotFound(f"no metric {name} is in force", field="name", value=name)
    _check_owner(latest, name, by)
    _check_managed(latest)
    return tx.retire(name, actor=by.id, at_us=at_us)


def differs(now: Iterable[Definition], wanted: Mapping[str, Declared]) -> bool:
    """Whether ``bring_in`` would change anything."""
    here = {one.name: Declared(metric=one.metric, managed_by=one.managed_by) for one in now}
    declared = {name: one for name, one in here.items() if one.managed_by in DECLARED}
    return declared != wanted


def bring_in(tx: Tx, wanted: Mapping[str, Declared], *, at_us: int) -> list[Definition]:
    """Make what is built in or of a file be as ``wanted``; returns the versions that changed.

    A file takes over a name that was declared over REST. The actor is ``file`` or ``built_in``.
    Raises ``Conflict`` with every metric whose layer, type or unit would change; then nothing has.
    """
    before = {one.name: one for one in tx.definitions()}
    changed: list[Definition] = []
    refused: list[str] = []
    for name, one in wanted.items():
        try:
            made = tx.declare(
                name, one.metric, managed_by=one.managed_by, actor=one.managed_by, at_us=at_us
            )
        except Conflict as error:
            refused.append(f"metrics.{name}: {error.detail}")
            continue
        if made != before.get(name):
            changed.append(made)
    if refused:
        raise Conflict("\n".join(refused), field="metrics")
    for name, was in before.items():
        if was.managed_by in DECLARED and name not in wanted:
            changed.append(tx.retire(name, actor=was.managed_by, at_us=at_us))
    return changed


def _all_of_them(by: Principal) -> bool:
    """An admin of everything; one who is bounded to some targets counts as his team only."""
    return by.role == "admin" and covers(by.targets, ANY)


def _owned(latest: Definition | None, metric: MetricSettings, by: Principal) -> MetricSettings:
    """With the owner that holds when none was given."""
    if "owner" in metric.model_fields_set:
        return metric
    owner = by.team if latest is None else latest.metric.owner
    return metric.model_copy(update={"owner": owner})


def _check_owner(latest: Definition | None, name: str, by: Principal) -> None:
    if _all_of_them(by):
        return
    if not by.team:
        raise Denied(f"the key of {by.name} has no team, so it owns no metrics")
    if latest is not None and latest.metric.owner != by.team:
        owner = latest.metric.owner or "the admins"
        raise Denied(f"{name} belongs to {owner}, {by.name} is of {by.team}")


def _check_new_owner(metric: MetricSettings, by: Principal) -> None:
    """Who does not own everything can't give metrics away, to others or to nobody."""
    if not _all_of_them(by) and metric.owner != by.team:
        raise Denied(
            f"{by.name} is of {by.team} and declares metrics of that team only", field="owner"
        )


def _check_managed(latest: Definition | None) -> None:
    if latest is not None and in_force(latest) and latest.managed_by in DECLARED:
        where = "a file" if latest.managed_by == "file" else "the product itself"
        raise Conflict(
            f"{latest.name} is declared by {where}; change it in the configuration, under metrics",
            field="managed_by",
            value=latest.managed_by,
            allowed="api",
        )

"""The past of a target and of a request as the API shows it. Reads only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final

import msgspec

from controller.api import shapes
from controller.api.ports import Services
from controller.api.target_views import MAX_AGE_S, declared
from controller.history.settings_then import ReadBack, SettingsThen, settings_at
from controller.history.times import moment
from controller.history.touching import arrival_of, met_by_stamp, met_by_time
from controller.holdback.drawing import is_holdback
from controller.past import ReplicaPast
from controller.store.port import Tx
from signals.errors import NotFound, Rejected
from signals.events import MICROS
from signals.features.model import RequestRow

AHEAD_US: Final = 5 * MICROS
"""A client's clock may be this much ahead."""


def settings_then(
    services: Services, target: str, at: str, *, intent: str | None, replica: str | None
) -> SettingsThen:
    """``GET /v1/targets/{target}/settings?at=``."""
    aim = declared(services, target)
    now_us = services.clock()
    at_us = moment(at, now_us=now_us)
    if at_us > now_us + AHEAD_US:
        raise Rejected("that is in the future", field="at", value=at, allowed=f"<= {now_us}")
    if intent is not None and intent not in aim.intents:
        raise Rejected(
            f"{target} has no intent {intent!r}",
            field="intent",
            value=intent,
            allowed=sorted(aim.intents),
        )
    read = read_backs(services, target)
    with services.store.read() as tx:
        known = tx.segment_replicas(target)
        if replica is not None and replica not in known:
            raise Rejected(
                f"nothing was ever recorded of {replica!r}",
                field="replica",
                value=replica,
                allowed=known,
            )
        return settings_at(tx, target, at_us, read=read, intent=intent, replica=replica)


def read_backs(services: Services, target: str) -> Mapping[str, ReadBack]:
    """Until when each replica is known to have kept its version: read now, or as noted last."""
    return _ReadBacks(services, target)


class _ReadBacks(Mapping[str, ReadBack]):
    """Asks the engines once, when somebody first looks: most of the past needs none of it."""

    def __init__(self, services: Services, target: str) -> None:
        self._services = services
        self._target = target
        with services.store.read() as tx:
            self._noted = tx.note(f"past:{target}")

    def __getitem__(self, replica: str) -> ReadBack:
        return self._found[replica]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    @cached_property
    def _found(self) -> dict[str, ReadBack]:
        now_us = self._services.clock()
        body = self._noted
        noted = {} if body is None else msgspec.json.decode(body, type=dict[str, ReplicaPast])
        found = {
            name: ReadBack(incarnation=one.incarnation, version=one.version, read_us=one.read_us)
            for name, one in noted.items()
        }
        replicas = self._services.fleet.of(self._target)
        for seen in self._services.fleet.look(replicas, max_age_s=MAX_AGE_S):
            if seen is not None:
                read_us = max(now_us, round(seen.engine_time * MICROS))
                found[seen.replica] = ReadBack(
                    incarnation=seen.incarnation, version=seen.version, read_us=read_us
                )
        return found


def request_seen(services: Services, request_id: str) -> dict[str, Any]:
    """``GET /v1/requests/{request_id}``. Raises ``NotFound``: none, and its id says nothing."""
    row = services.features.request(request_id)
    if row is None:
        return _forgotten(services, request_id)
    read = read_backs(services, row.target)
    with services.store.read() as tx:
        return {
            "id": request_id,
            "request": row,
            "stamp": _stamp(row),
            "met": met_by_stamp(tx, row, read=read),
            "policies": [_in_force(tx, policy_id) for policy_id in row.policies],
            "trial": _trial(tx, row),
            "outcomes": services.features.outcomes(request_id),
        }


def _forgotten(services: Services, request_id: str) -> dict[str, Any]:
    """One whose row is gone, by what its id says. Raises ``NotFound`` where that was not due."""
    found = arrival_of(request_id)
    unknown = NotFound(f"no request {request_id!r}", field="request_id", value=request_id)
    if found is None or found[0] not in services.settings.targets:
        raise unknown
    target, at_us = found
    kept_us = services.settings.features.request_retention_s * MICROS
    if at_us > services.clock() - kept_us:
        raise unknown
    read = read_backs(services, target)
    with services.store.read() as tx:
        met = met_by_time(tx, target, at_us, read=read)
    return {
        "id": request_id,
        "request": None,
        "stamp": None,
        "met": met,
        "policies": [],
        "trial": None,
        "outcomes": services.features.outcomes(request_id),
    }


def _stamp(row: RequestRow) -> dict[str, Any]:
    return {
        "target": row.target,
        "replica": row.replica,
        "incarnation": row.incarnation,
        "version": row.version,
        "digest": row.digest,
    }


def _in_force(tx: Tx, policy_id: str) -> dict[str, Any]:
    """A policy that the stamp names; one that we don't know is shown as such, not left out."""
    try:
        found = tx.policy(policy_id)
    except NotFound:
        return {"id": policy_id, "known": False}
    history = shapes.approvals(tx, policy_id)
    return {**shapes.policy(found), "known": True, "history": history}


def _trial(tx: Tx, row: RequestRow) -> dict[str, Any] | None:
    if not row.trial:
        return None
    block = {"block": row.block, "arm": row.arm}
    if is_holdback(row.trial):
        return {"id": row.trial, "design": "holdback", **block}
    return {**shapes.trial_line(tx.trial(row.trial)), **block}

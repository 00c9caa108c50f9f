"""What a target's replicas had at a time: place by place, who made it so, and where it is written.

An answer is known or it is not. It is not where nothing was recorded yet, where the engine's log
has a hole, and after the last read-back of a replica that does not answer any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from controller.history.makers import Maker, Makers
from controller.store.port import Tx
from policies.in_force import InForce, Segment
from policies.laws import Law
from policies.runtime_config import TrialStamp
from policies.settings import Setting, split

BEFORE_RECORD: Final = "nothing of this replica was recorded yet"
NOT_READ: Final = "it has not been read back since"


class ReadBack(Struct, frozen=True, kw_only=True):
    """Until when a replica is known to have kept one version of its settings."""

    incarnation: str
    version: int
    read_us: int


class PlaceThen(Struct, frozen=True, kw_only=True):
    """One place's setting. ``value`` under a law: where the law stood as the segment began."""

    place: str
    knob: str
    scope: str
    value: int
    law: Law | None
    words: str
    maker: Maker


class ReplicaThen(Struct, frozen=True, kw_only=True):
    """One replica's settings. ``known`` False: nobody can say, from ``from_us`` to ``until_us``,

    and ``why``. ``entry``: of the audit, which holds the same and can be proved.
    """

    replica: str
    known: bool
    from_us: int | None
    until_us: int | None
    why: str | None = None
    incarnation: str | None = None
    version: int | None = None
    digest: str | None = None
    cause: str | None = None
    change_id: str | None = None
    hold: bool = False
    trial: TrialStamp | None = None
    entry: int | None = None
    places: tuple[PlaceThen, ...] = ()


class SettingsThen(Struct, frozen=True, kw_only=True, tag_field="kind", tag="then"):
    """All replicas. ``known``: of every one. ``same``: every one had the same, as far as known."""

    target: str
    at_us: int
    intent: str | None
    known: bool
    same: bool
    replicas: tuple[ReplicaThen, ...]


def settings_at(
    tx: Tx,
    target: str,
    at_us: int,
    *,
    read: Mapping[str, ReadBack],
    intent: str | None = None,
    replica: str | None = None,
) -> SettingsThen:
    """What was in force at an instant. ``read``: the latest read-back of each replica."""
    names = [replica] if replica is not None else tx.segment_replicas(target)
    makers = Makers(tx, target)
    found = tuple(
        replica_at(tx, makers, target, name, at_us, read=read, intent=intent) for name in names
    )
    digests = {one.digest for one in found if one.known}
    return SettingsThen(
        target=target,
        at_us=at_us,
        intent=intent,
        known=bool(found) and all(one.known for one in found),
        same=len(digests) <= 1,
        replicas=found,
    )


def replica_at(
    tx: Tx,
    makers: Makers,
    target: str,
    replica: str,
    at_us: int,
    *,
    read: Mapping[str, ReadBack],
    intent: str | None = None,
) -> ReplicaThen:
    """One replica's settings at an instant. ``read`` is asked only where that matters."""
    segment = tx.segment_at(target, replica, at_us)
    if segment is None:
        first = next(iter(tx.segments(target, replica=replica, limit=1)), None)
        return ReplicaThen(
            replica=replica,
            known=False,
            from_us=None,
            until_us=None if first is None else first.from_us,
            why=BEFORE_RECORD,
        )
    if segment.until_us is None:
        last_us = kept_until(segment, read.get(replica))
        if at_us > last_us:
            return ReplicaThen(
                replica=replica,
                known=False,
                from_us=last_us,
                until_us=None,
                why=NOT_READ,
                entry=segment.entry,
            )
    return shown(segment, makers, at_us, intent=intent)


def kept_until(segment: Segment, read: ReadBack | None) -> int:
    """Until when an open segment is known to have lasted, by the latest read-back."""
    if read is None or (read.incarnation, read.version) != (segment.incarnation, segment.version):
        return segment.from_us
    return max(segment.from_us, read.read_us)


def shown(
    segment: Segment, makers: Makers, at_us: int, *, intent: str | None = None
) -> ReplicaThen:
    """A segment with the makers of its settings."""
    chosen = segment.settings if intent is None else of_intent(segment.settings, intent)
    return ReplicaThen(
        replica=segment.replica,
        known=segment.known,
        from_us=segment.from_us,
        until_us=segment.until_us,
        why=None if segment.known else segment.cause,
        incarnation=segment.incarnation or None,
        version=segment.version if segment.known else None,
        digest=segment.digest or None,
        cause=segment.cause if segment.known else None,
        change_id=segment.change_id,
        hold=segment.hold,
        trial=segment.trial,
        entry=segment.entry,
        places=tuple(
            PlaceThen(
                place=at,
                knob=split(at)[0],
                scope=split(at)[1],
                value=one.value,
                law=one.law,
                words=words(one),
                maker=makers.of(segment, at, one, at_us),
            )
            for at, one in chosen.items()
        ),
    )


def of_intent(settings: Mapping[str, InForce], intent: str) -> dict[str, InForce]:
    """What requests of an intent get: of each knob the intent's own place, else the target's."""
    own = {split(at)[0]: at for at in settings if split(at)[1] == intent}
    plain = {at: at for at in settings if "@" not in at}
    return {at: settings[at] for _, at in sorted((plain | own).items())}


def words(one: InForce) -> str:
    """``8``, or a law in words."""
    value = None if one.law is not None else one.value
    return Setting(value=value, law=one.law).words()

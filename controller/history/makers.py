"""Who made a setting: a policy, a person's override, the baseline, the boot, or somebody else."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from controller.holdback.drawing import is_holdback
from controller.store.port import AuditQuery, Tx
from policies.baseline import Baseline
from policies.in_force import InForce, Segment
from policies.overrides import Override
from policies.policy import Policy
from policies.settings import split
from signals.errors import NotFound

MakerKind = Literal["policy", "override", "baseline", "boot", "other", "gone"]
DECIDED = ("policy.approved", "policy.proposed", "override.set")


class Maker(Struct, frozen=True, kw_only=True):
    """Who made a setting, who decided that, and the audit entry of the decision.

    ``other``: no policy, override, baseline or boot value of ours. ``gone``: an id that the store
    does not know. ``id``: a policy's, an override's, or ``name@version`` of a baseline.
    """

    kind: MakerKind
    id: str | None = None
    words: str = ""
    decided_by: tuple[str, ...] = ()
    reason: str = ""
    entry: int | None = None


class Makers:
    """Looks makers up, each once. For one transaction and one target."""

    def __init__(self, tx: Tx, target: str) -> None:
        self._tx = tx
        self._target = target
        self._known: dict[str, Maker] = {}
        self._baselines: list[Baseline] | None = None
        self._boots: dict[str, Segment | None] = {}

    def of(self, segment: Segment, place: str, now: InForce, at_us: int) -> Maker:
        """The maker of one place's setting in a segment."""
        if now.policy_id is not None:
            return self.named(now.policy_id)
        declared = self.baseline_at(max(at_us, segment.from_us))
        if declared is not None and _is(declared, place, now):
            return self._of_baseline(declared)
        boot = self._boot(segment)
        if boot is not None and boot.settings.get(place) == now:
            return Maker(kind="boot", words="the value that it boots with")
        earlier = self._was_declared(place, now, segment.from_us)
        if earlier is not None:
            return self._of_baseline(earlier)
        return Maker(
            kind="other",
            id=segment.change_id,
            words="a change that no policy, override or baseline of ours made",
            entry=self._latest(split(place)[0], "engine.foreign_change", at_us),
        )

    def named(self, id_: str) -> Maker:
        """The policy or override with an id."""
        if id_ not in self._known:
            self._known[id_] = self._look_up(id_)
        return self._known[id_]

    def baseline_at(self, at_us: int) -> Baseline | None:
        """The version in force at a time; None before the first."""
        versions = [one for one in self._versions() if one.from_us <= at_us]
        return versions[-1] if versions else None

    def _versions(self) -> list[Baseline]:
        if self._baselines is None:
            self._baselines = list(self._tx.baselines(self._target))
        return self._baselines

    def _was_declared(self, place: str, now: InForce, from_us: int) -> Baseline | None:
        """A version that an engine may still have had just before it heard of the next one."""
        earlier = [one for one in self._versions() if one.from_us <= from_us]
        return next((one for one in reversed(earlier) if _is(one, place, now)), None)

    def _of_baseline(self, declared: Baseline) -> Maker:
        return Maker(
            kind="baseline",
            id=declared.words,
            words=declared.words,
            decided_by=(declared.by,),
            reason=declared.reason,
            entry=self._latest(f"{declared.target}@{declared.version}", "baseline.declared", None),
        )

    def _look_up(self, id_: str) -> Maker:
        if is_holdback(id_):
            words = "the baseline, in a block of the holdback"
            return Maker(kind="baseline", id=id_, words=words)
        try:
            return self._of_policy(self._tx.policy(id_))
        except NotFound:
            pass
        try:
            return self._of_override(self._tx.override(id_))
        except NotFound:
            return Maker(kind="gone", id=id_, words=f"{id_}, which this controller does not know")

    def _of_policy(self, found: Policy) -> Maker:
        return Maker(
            kind="policy",
            id=found.id,
            words=found.words(),
            decided_by=deciders(found),
            reason=found.reason,
            entry=self._decision(found.id),
        )

    def _of_override(self, found: Override) -> Maker:
        return Maker(
            kind="override",
            id=found.id,
            words=found.words(),
            decided_by=(found.by,),
            reason=found.reason,
            entry=self._decision(found.id),
        )

    def _decision(self, id_: str) -> int | None:
        for action in DECIDED:
            found = self._latest(id_, action, None)
            if found is not None:
                return found
        return None

    def _latest(self, subject: str, action: str, at_us: int | None) -> int | None:
        to_us = None if at_us is None else at_us + 1
        query = AuditQuery(
            target=self._target, subject=subject, action=action, to_us=to_us, limit=1
        )
        found = self._tx.audit_lines(query)
        return found[0].index if found else None

    def _boot(self, segment: Segment) -> Segment | None:
        name = segment.incarnation
        if name not in self._boots:
            self._boots[name] = self._tx.segment_of(name, 0) if name else None
        return self._boots[name]


def deciders(policy: Policy) -> tuple[str, ...]:
    """Who said yes to a policy; the rule or model behind it where nobody had to."""
    said = tuple(one.by for one in policy.approvals)
    if said:
        return said
    return (policy.decided_by or f"{policy.origin.kind} {policy.origin.name}",)


def _is(declared: Baseline, place: str, now: InForce) -> bool:
    setting = declared.settings.get(place)
    if setting is None:
        return False
    return setting.law == now.law and (now.law is not None or setting.value == now.value)

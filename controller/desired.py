"""What a target's engine should have now: one pure function of everything that was decided.

Layers, lowest first: baseline, kept policies (oldest first), emergencies, the trial's arm, pins,
forces. All replicas of a target are wished the same, but for the halves of a crossover, which have
an arm each (``Wishes``). A killed target drops to what ``on_kill`` says, and only forces stand over
it; a held one keeps what it has. A place that a stranger changed is left alone, so it does not
appear.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from controller.judge.carry_over import plan_in_force
from controller.store.port import Control
from controller.trials import Block, Trial, stamp_of
from policies.overrides import Override
from policies.policy import Policy
from policies.runtime_config import TrialStamp
from policies.settings import Effective, Layer, OnKill, Setting, effective, standing

EXPIRY_GRACE_S = 15.0
"""A trial's candidate outlives its block by this much if the controller dies, never more."""


class Desired(Struct, frozen=True, kw_only=True):
    """The whole wish for one engine, by place. ``left_alone``: places that a stranger changed.

    ``hold``: the engine keeps what it has; only what is forced is sent all the same.
    ``through_hold``: a person's rollback, which a hold does not stop. ``candidate``: what sessions
    of the candidate's arm should have instead, while ``trial`` splits them.
    """

    settings: dict[str, Effective]
    trial: TrialStamp | None = None
    hold: bool = False
    left_alone: tuple[str, ...] = ()
    through_hold: bool = False
    candidate: dict[str, Effective] = {}

    def sent(self) -> dict[str, Effective]:
        """The places that may be sent: under a hold the forced ones alone."""
        if not self.hold or self.through_hold:
            return self.settings
        return {at: one for at, one in self.settings.items() if one.kind == "force"}


class Held(Struct, frozen=True, kw_only=True):
    """An open block of the holdback: its stamp, and the layers that put the baseline in force."""

    stamp: TrialStamp
    layers: tuple[Layer, ...] = ()


class Wishes(Struct, frozen=True, kw_only=True):
    """What each replica should have: what all share, and ``apart`` what those by name have."""

    shared: Desired
    apart: dict[str, Desired] = {}

    def of(self, replica: str) -> Desired:
        """The wish for one replica."""
        return self.apart.get(replica, self.shared)


def current_block(trial: Trial | None) -> Block | None:
    """The block that is running or waiting to be applied; None when the trial is not running."""
    if trial is None or trial.state != "running" or not trial.units:
        return None
    block = trial.units[-1].blocks[-1]
    return None if block.ended_us is not None else block


def wishes(
    baseline: Mapping[str, Setting],
    policies: Iterable[Policy],
    trial: Trial | Held | None,
    control: Control,
    overrides: Iterable[Override] = (),
    *,
    on_kill: OnKill,
    now_us: int,
    skew_us: int = 0,
) -> Wishes:
    """Fold everything into a wish for every replica. ``policies``: those of one target, any state.

    ``baseline``: by place. ``overrides``: of one target, any state; those that are over count for
    nothing. ``skew_us``: how far the engine's clock is ahead of ours; blocks are told by the
    engine's. A replica in neither half of a crossover keeps what is below the arm, unstamped.
    ``trial``: where none runs, the open block of the holdback.
    """
    policies, held = tuple(policies), [one for one in overrides if one.in_force(now_us)]
    layers = [*kept_layers(policies), *_emergencies(policies), *_overridden(held)]
    alone = _left_alone(held)
    if control.killed:
        return Wishes(shared=_killed(baseline, layers, alone, on_kill))
    back = trial if isinstance(trial, Held) and not control.hold else None
    running = None if isinstance(trial, Held) or control.hold else trial
    running = None if current_block(running) is None else running

    def wish(replica: str | None) -> Desired:
        stamp = (
            None if running is None else stamp_of(running, running.units[-1].blocks[-1], replica)
        )
        arm = [] if running is None else _arm(running, stamp, now_us, skew_us)
        if back is not None:
            stamp, arm = back.stamp, [*back.layers]
        folded = theirs = effective(baseline, [*layers, *arm])
        if stamp is not None and stamp.split is not None:
            folded = effective(baseline, layers)
        left = tuple(at for at in alone if not _by_person(folded.get(at)))
        return Desired(
            settings={at: one for at, one in folded.items() if at not in left},
            trial=stamp,
            hold=control.hold,
            left_alone=left,
            candidate={
                at: one
                for at, one in theirs.items()
                if folded is not theirs and one.kind == "arm" and at not in left
            },
        )

    apart: dict[str, Desired] = {}
    for half in () if running is None else running.plan.split:
        if half:
            apart |= dict.fromkeys(half, wish(half[0]))
    return Wishes(shared=wish(None), apart=apart)


def desired(
    baseline: Mapping[str, Setting],
    policies: Iterable[Policy],
    trial: Trial | None,
    control: Control,
    overrides: Iterable[Override] = (),
    *,
    on_kill: OnKill,
    now_us: int,
    skew_us: int = 0,
) -> Desired:
    """What all replicas share: all of ``wishes`` where no crossover runs."""
    return wishes(
        baseline,
        policies,
        trial,
        control,
        overrides,
        on_kill=on_kill,
        now_us=now_us,
        skew_us=skew_us,
    ).shared


def _killed(
    baseline: Mapping[str, Setting],
    layers: list[Layer],
    alone: tuple[str, ...],
    on_kill: OnKill,
) -> Desired:
    """A kill that goes somewhere takes strangers' changes with it; one that holds keeps them.

    Under one that holds the lasting layers are what a force falls back to, and what an engine that
    restarts is brought back to.
    """
    if on_kill != "hold":
        return Desired(settings=effective(baseline, standing(layers, on_kill)))
    folded = effective(baseline, standing(layers, "last_stable"))
    alone = tuple(at for at in alone if not _by_person(folded.get(at)))
    return Desired(settings=folded, hold=True, left_alone=alone)


def _by_person(found: Effective | None) -> bool:
    return found is not None and found.kind in ("pin", "force")


def _left_alone(overrides: Iterable[Override]) -> tuple[str, ...]:
    places = {one.place for one in overrides if one.adopted is not None}
    return tuple(sorted(at for at in places if at is not None))


def _overridden(overrides: Iterable[Override]) -> list[Layer]:
    found = (one.layer() for one in sorted(overrides, key=lambda one: one.id))
    return [layer for layer in found if layer is not None]


def kept_layers(policies: Iterable[Policy]) -> list[Layer]:
    """The layers of kept policies, oldest first."""
    kept = sorted((p for p in policies if p.state == "kept"), key=lambda p: p.id)
    return [Layer(knob=p.knob, scope=p.scope, setting=p.setting, policy_id=p.id) for p in kept]


def _emergencies(policies: Iterable[Policy]) -> list[Layer]:
    live = (p for p in policies if p.emergency and p.state in ("applying", "in_force"))
    return [
        Layer(
            knob=p.knob,
            scope=p.scope,
            setting=p.setting,
            policy_id=p.id,
            kind="emergency",
            expires_us=p.expires_us,
        )
        for p in sorted(live, key=lambda p: p.id)
    ]


def _arm(trial: Trial, stamp: TrialStamp | None, now_us: int, skew_us: int) -> list[Layer]:
    """The trial's layer where the candidate is in force, which ends by itself after its block.

    Once that time is over it is not wished any more, though nobody could end the block yet: one of
    its replicas is out of reach, or its telemetry is.
    """
    unit = trial.units[-1]
    began_us = unit.blocks[-1].began_us
    since_us = now_us if began_us is None else began_us - skew_us
    length_s = plan_in_force(trial, unit.index).block_s
    expires_us = since_us + round((length_s + EXPIRY_GRACE_S) * 1e6)
    stands = stamp is not None and (stamp.split is not None or stamp.arm == "candidate")
    if not stands or unit.tripped or expires_us <= now_us:
        return []
    return [
        Layer(
            knob=trial.plan.knob,
            scope=trial.plan.scope,
            setting=trial.plan.candidate,
            policy_id=trial.plan.policy_id,
            kind="arm",
            expires_us=expires_us,
        )
    ]

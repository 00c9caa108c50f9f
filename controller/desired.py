"""What a target's engine should have now: one pure function of everything that was decided.

Layers, lowest first: baseline, kept policies (oldest first), emergencies, the trial's arm. A killed
target drops to what ``on_kill`` says; a held one keeps what it has. A knob under a foreign change
is left alone, so it does not appear.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct

from controller.judge.carry_over import plan_in_force
from controller.store.port import Control, Foreign
from controller.trials import Block, Trial
from policies.policy import Policy
from policies.runtime_config import TrialStamp
from policies.settings import Effective, Layer, Setting, effective

OnKill = Literal["hold", "last_stable", "baseline"]

EXPIRY_GRACE_S = 15.0
"""A trial's candidate outlives its block by this much if the controller dies, never more."""


class Desired(Struct, frozen=True, kw_only=True):
    """The whole wish for one engine. ``left_alone``: knobs under a foreign change."""

    settings: dict[str, Effective]
    trial: TrialStamp | None = None
    hold: bool = False
    left_alone: tuple[str, ...] = ()


def current_block(trial: Trial | None) -> Block | None:
    """The block that is running or waiting to be applied; None when the trial is not running."""
    if trial is None or trial.state != "running" or not trial.units:
        return None
    block = trial.units[-1].blocks[-1]
    return None if block.ended_us is not None else block


def desired(
    baseline: Mapping[str, Setting],
    policies: Iterable[Policy],
    trial: Trial | None,
    control: Control,
    foreign: Iterable[Foreign],
    *,
    on_kill: OnKill,
    now_us: int,
    skew_us: int = 0,
) -> Desired:
    """Fold everything into one wish. ``policies``: those of one target, any state, any order.

    ``skew_us``: how far the engine's clock is ahead of ours; blocks are told by the engine's.
    """
    alone = tuple(sorted(f.knob for f in foreign if f.until_us > now_us))
    if control.killed:
        return _after_kill(baseline, policies, on_kill, alone)
    layers = [*_kept(policies), *_emergencies(policies)]
    block = current_block(trial)
    stamp = None
    if trial is not None and block is not None and not control.hold:
        stamp = TrialStamp(id=trial.plan.id, block=block.index, arm=block.arm)
        if block.arm == "candidate" and not trial.units[-1].tripped:
            layers.append(_candidate(trial, block, now_us, skew_us))
    folded = effective(baseline, layers)
    return Desired(
        settings={knob: one for knob, one in folded.items() if knob not in alone},
        trial=stamp,
        hold=control.hold,
        left_alone=alone,
    )


def _after_kill(
    baseline: Mapping[str, Setting],
    policies: Iterable[Policy],
    on_kill: OnKill,
    alone: tuple[str, ...],
) -> Desired:
    if on_kill == "hold":
        return Desired(settings={}, hold=True, left_alone=alone)
    layers = _kept(policies) if on_kill == "last_stable" else []
    return Desired(settings=effective(baseline, layers))


def _kept(policies: Iterable[Policy]) -> list[Layer]:
    kept = sorted((p for p in policies if p.state == "kept"), key=lambda p: p.id)
    return [Layer(knob=p.knob, setting=p.setting, policy_id=p.id) for p in kept]


def _emergencies(policies: Iterable[Policy]) -> list[Layer]:
    live = (p for p in policies if p.emergency and p.state in ("applying", "in_force"))
    return [
        Layer(knob=p.knob, setting=p.setting, policy_id=p.id, expires_us=p.expires_us)
        for p in sorted(live, key=lambda p: p.id)
    ]


def _candidate(trial: Trial, block: Block, now_us: int, skew_us: int) -> Layer:
    began_us = now_us if block.began_us is None else block.began_us - skew_us
    length_s = plan_in_force(trial, block.index // 2).block_s
    length_us = round((length_s + EXPIRY_GRACE_S) * 1e6)
    return Layer(
        knob=trial.plan.knob,
        setting=trial.plan.candidate,
        policy_id=trial.plan.policy_id,
        expires_us=began_us + length_us,
    )

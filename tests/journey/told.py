"""A trial as the product would run and tell it, on made-up rows: audit, change log, exported rows.

The product's own judge computes the figures, so a test that derives them again compares two
programs that share no line.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec

from controller.judge.values import block_values, unit_differences
from controller.judge.verdict import rule_on
from controller.trials import Block, BlockValues, GuardPlan, Trial, TrialPlan, Unit, arms
from examples.journey.audit_trail import read_export
from examples.journey.rederive import Evidence
from policies.audit import Entry, canonical, leaf_hash
from signals.features.model import RequestRow, SecondRow
from tests.judge.builders import BEGAN_US, plan, request, second

PLAN = plan(
    alpha=0.05,
    min_units=5,
    max_units=8,
    block_s=20.0,
    washout_s=4.0,
    min_requests=5,
    guards=(
        GuardPlan(metric="attainment:batch", margin=0.05, scale=0.5),
        GuardPlan(metric="attainment:live", margin=0.05, scale=0.5),
    ),
)
BLOCK_US = 20_000_000


@dataclass(kw_only=True)
class Told:
    """What an auditor would get. Lists, so that a test can alter them."""

    lines: list[str] = field(default_factory=list)
    changes: list[dict[str, Any]] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    seconds: list[dict[str, Any]] = field(default_factory=list)
    verdict: str | None = None

    def note(self, actor: str, action: str, subject: str, **details: Any) -> None:
        """One more audit entry."""
        index = len(self.lines)
        entry = Entry(
            index=index,
            at_us=BEGAN_US + index,
            actor=actor,
            action=action,
            subject=subject,
            target="chat",
            details=details,
        )
        stored = canonical(entry)
        line = {"index": index, "leaf_hash": leaf_hash(stored).hex(), "entry": stored.decode()}
        self.lines.append(json.dumps(line))

    def evidence(self) -> Evidence:
        """As the journey gathers it."""
        return Evidence(
            entries=read_export(self.lines),
            changes=self.changes,
            requests={PLAN.id: self.requests},
            seconds={PLAN.id: self.seconds},
        )


def tell(rng: Random, *, gain: float, frozen: TrialPlan = PLAN) -> Told:
    """A whole trial. ``gain``: how many times faster the candidate is."""
    told = Told()
    policy = frozen.policy_id
    for actor, state in (("plant:curve", "proposed"), ("loop", "pending"), ("key_b", "approved")):
        told.note(actor, f"policy.{state}", policy)
    details = {"policy": policy, "plan": msgspec.to_builtins(frozen)}
    told.note("loop", "trial.frozen", frozen.id, **details)
    told.note("loop", "policy.applying", policy)
    told.note("loop", "policy.on_trial", policy)
    trial = Trial(plan=frozen, began_us=BEGAN_US)
    while told.verdict is None:
        trial = msgspec.structs.replace(trial, units=(*trial.units, _unit(told, trial, rng, gain)))
        ruling = rule_on(trial)
        told.verdict = ruling.verdict
        if ruling.verdict is not None:
            told.note(
                "loop",
                "trial.verdict",
                frozen.id,
                policy=policy,
                verdict=ruling.verdict,
                units=ruling.units,
                e=ruling.e,
            )
    states = ["kept"] if told.verdict == "IMPROVED" else ["reverting", "reverted"]
    for state in states:
        told.note("loop", f"policy.{state}", policy)
    return told


def _unit(told: Told, trial: Trial, rng: Random, gain: float) -> Unit:
    index = len(trial.units)
    order = arms(trial.plan.seed, index)
    found: dict[str, BlockValues] = {}
    void, began = None, []
    for place, arm in enumerate(order):
        block = Block(
            index=2 * index + place, arm=arm, began_us=BEGAN_US + (2 * index + place) * BLOCK_US
        )
        began.append(block.began_us)
        rows, ticks = _rows(block, rng, gain if arm == "candidate" else 1.0)
        values = block_values(trial.plan, block, rows, ticks)
        if isinstance(values, str):
            void = values
        else:
            found[arm] = values
        told.requests += [json.loads(msgspec.json.encode(row)) for row in rows]
        told.seconds += [json.loads(msgspec.json.encode(tick)) for tick in ticks]
        told.changes.append(_change(block))
    d = {}
    if void is None:
        d = unit_differences(found["baseline"].values, found["candidate"].values)
    told.note(
        "loop",
        "trial.unit",
        trial.plan.id,
        unit=index,
        arms=list(order),
        began_us=began,
        d=d,
        void=void,
    )
    return Unit(index=index, blocks=(), d=d, judged=void is None, void=void)


def _rows(block: Block, rng: Random, gain: float) -> tuple[list[RequestRow], list[SecondRow]]:
    """About what a block shows; nothing depends on how it was made."""
    shift_s = ((block.began_us or 0) - BEGAN_US) / 1e6
    rows = []
    for _ in range(60):
        took_s = rng.expovariate(gain)
        rows.append(
            request(
                shift_s + rng.uniform(0, 20),
                intent=rng.choice(("live", "batch")),
                took_s=None if rng.random() < 0.05 else took_s,
                ttft_s=took_s / 3,
                good=None if rng.random() < 0.05 else took_s < 1.5,
                block=block.index,
                arm=block.arm,
            )
        )
    ticks = [
        msgspec.structs.replace(
            second(
                shift_s + at,
                tokens={"batch": round(100 * gain * rng.uniform(0.8, 1.2)), "live": 20},
                waiting={"batch": rng.choice((0, 5, 9))},
            ),
            block=block.index,
            arm=block.arm,
        )
        for at in range(1, 21)
    ]
    return rows, ticks


def _change(block: Block) -> dict[str, Any]:
    candidate = block.arm == "candidate"
    return {
        "seq": block.index,
        "at": (block.began_us or 0) / 1e6,
        "cause": "patch",
        "policy_id": PLAN.policy_id if candidate else None,
        "trial": {"id": PLAN.id, "block": block.index, "arm": block.arm},
    }

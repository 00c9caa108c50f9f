"""Records to store, and ways to bring a policy to any state by legal moves only."""

from __future__ import annotations

import itertools
from collections import deque
from typing import Any

from controller.store.port import Decision, Store
from controller.trials import GuardPlan, IntentPlan, Trial, TrialPlan
from policies.ids import new_id
from policies.laws import Law, LawStep
from policies.lifecycle import MOVES, State
from policies.policy import Guard, Origin, Policy
from policies.settings import Setting

NOW_US = 1_750_000_000_000_000
_numbers = itertools.count(1)

LAW = Law(
    variable="arrivals",
    class_="interactive",
    window_s=2.0,
    default=64,
    steps=(LawStep(above=0.5, value=8),),
    min_dwell_s=0.5,
)


def fresh_id(prefix: str) -> str:
    number = next(_numbers)
    return new_id(prefix, NOW_US + number, number.to_bytes(8, "big"))


def a_policy(**fields: Any) -> Policy:
    made: dict[str, Any] = {
        "id": fresh_id("pol"),
        "target": "chat",
        "knob": "active_cap",
        "before": Setting(value=8),
        "setting": Setting(law=LAW),
        "origin": Origin(kind="plant", name="step_curve"),
        "reason": "interactive requests need a step under 50 ms",
        "evidence": {"step_ms": 27.6},
        "guards": (Guard(metric="attainment:live", margin=0.02),),
        "mode": "approve",
        "proposed_by": "loop",
        "created_us": NOW_US,
        "updated_us": NOW_US,
    }
    return Policy(**(made | fields))


def path_to(state: State) -> tuple[State, ...]:
    """The shortest list of legal moves from proposed."""
    seen: dict[State, tuple[State, ...]] = {"proposed": ()}
    waiting: deque[State] = deque(seen)
    while waiting:
        here = waiting.popleft()
        for after in MOVES[here]:
            if after not in seen:
                seen[after] = (*seen[here], after)
                waiting.append(after)
    return seen[state]


def stored_in(store: Store, state: State, **fields: Any) -> Policy:
    """A new policy, added and moved to ``state``, each move in a transaction of its own."""
    policy = a_policy(**fields)
    with store.write() as tx:
        tx.add_policy(policy)
    for step, after in enumerate(path_to(state), 1):
        with store.write() as tx:
            policy = tx.move(policy, after, actor="loop", at_us=NOW_US + step)
    return policy


def a_plan(policy: Policy, **fields: Any) -> TrialPlan:
    made: dict[str, Any] = {
        "id": fresh_id("tri"),
        "policy_id": policy.id,
        "target": policy.target,
        "knob": policy.knob,
        "hypothesis": policy.words(),
        "scale": 1.0,
        "guards": (GuardPlan(metric="attainment:live", margin=0.02, scale=0.5),),
        "alpha": 0.01,
        "guard_alpha": 0.05,
        "min_units": 7,
        "max_units": 60,
        "block_s": 45.0,
        "washout_s": 15.0,
        "cycle_s": None,
        "min_requests": 30,
        "seed": 7,
        "maximize": "batch",
        "reference_tokens_per_s": 400.0,
        "intents": (
            IntentPlan(name="live", target_attainment=0.97, deadline_s=3.0, ttft_slo_s=1.0),
        ),
        "max_error_rate": 0.1,
        "min_errors": 20,
        "baseline": policy.before,
        "candidate": policy.setting,
    }
    return TrialPlan(**(made | fields))


def a_trial(policy: Policy, **fields: Any) -> Trial:
    made: dict[str, Any] = {"plan": a_plan(policy), "began_us": NOW_US}
    return Trial(**(made | fields))


def a_decision(**fields: Any) -> Decision:
    made: dict[str, Any] = {
        "id": fresh_id("dec"),
        "target": "chat",
        "at_us": NOW_US,
        "source": "rule:slow",
        "context": {"live.attainment": 0.91},
        "actions": ("down", "stay"),
        "chosen": "down",
        "propensity": 1.0,
        "model": "rules@1",
        "seed": 11,
        "cursor": 42,
    }
    return Decision(**(made | fields))

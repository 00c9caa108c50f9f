"""Nothing that is admitted violates a guardrail, whatever was proposed on whatever past.

The oracle is written anew, from the settings' reasons, and shares no code with the guardrails.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policies.guardrails import RAILS, Around, admit
from policies.lifecycle import STATES, State
from policies.limits import Limits
from policies.policy import Origin, Policy
from policies.proposal import Proposal
from policies.settings import Setting
from tests.policies.proposals import CAP, LADDER, NOW_US, PERSON, PLANT, RULE, SECOND_US, law, wish

KNOBS = ("active_cap", "active_cap", "other_cap", "third_cap")
SPECS = {name: msgspec.structs.replace(CAP, name=name) for name in KNOBS}
OPEN = {
    "proposed",
    "pending",
    "approved",
    "applying",
    "on_trial",
    "paused",
    "in_force",
    "reverting",
}
LEARNER = Origin(kind="learner", name="bandit")

ENDED: tuple[State, ...] = (
    "reverted",
    "reverted",
    "kept",
    "rejected",
    "failed",
    "expired",
    "superseded",
)
WAITING: tuple[State, ...] = ("pending",) * 8

values = st.sampled_from((4, 16, 32, 4, 16, 32, 4, 16, 32, 2, 8, 64, 0, 12, 65))
befores = st.sampled_from((8, 8, 8, 2, 16, 64))
placed = st.one_of(*[values.map(lambda v: Setting(value=v))] * 4, values.map(law))
agos_s = st.sampled_from((0, 1, 30, 59, 60, 299, 599, 600, 1200, 3599, 3600, 7200))


@st.composite
def proposals(draw: st.DrawFn) -> Proposal:
    return wish(
        draw(placed),
        before=draw(befores),
        knob=draw(st.sampled_from(KNOBS)),
        origin=draw(st.sampled_from((RULE, PLANT, PERSON, LEARNER))),
        emergency=draw(st.integers(0, 5)) == 0,
    )


@st.composite
def pasts(draw: st.DrawFn) -> Policy:
    state = draw(st.sampled_from((*STATES, *ENDED * 4, *WAITING)))
    ended_s, ran_s = draw(agos_s), draw(agos_s)
    applied = draw(st.booleans())
    return Policy(
        id=f"pol_{draw(st.integers(0, 10**9)):010}",
        target="chat",
        knob=draw(st.sampled_from(KNOBS)),
        before=Setting(value=draw(befores)),
        setting=draw(placed),
        origin=RULE,
        reason="because",
        mode="auto",
        state=state,
        verdict=draw(st.sampled_from((None, "HARMED", "INCONCLUSIVE"))),
        emergency=draw(st.integers(0, 5)) == 0,
        proposed_by="rule:idle",
        created_us=0,
        updated_us=NOW_US - ended_s * SECOND_US,
        applied_us=NOW_US - (ended_s + ran_s) * SECOND_US if applied else None,
    )


LAX = Limits(
    ladder=LADDER,
    step=64,
    ladder_steps=64,
    dwell_s=0.0,
    steps_per_hour=1000,
    max_per_hour=1000,
    flip_s=0.0,
    cooldown_s=0.0,
    max_pending=1000,
    max_kept=1000,
)
TIGHT: tuple[dict[str, Any], ...] = (
    {"low": 4, "high": 32},
    {"ladder_steps": 1},
    {"step": 1},
    {"dwell_s": 60.0},
    {"steps_per_hour": 3},
    {"max_per_hour": 2},
    {"flip_s": 600.0},
    {"cooldown_s": 600.0},
    {"max_pending": 2},
    {"max_kept": 1},
    {"max_replicas": 1},
)
"""One at a time: with every limit tight the first one would deny nearly everything."""


def numbers(setting: Setting) -> list[int]:
    if setting.law is not None:
        return list(setting.law.values())
    return [] if setting.value is None else [setting.value]


def rungs(a: int, b: int, ladder: Sequence[int]) -> int:
    """Ladder values from a to b, by walking."""
    return len([v for v in ladder if (a < v <= b) or (b <= v < a)])


def longest(before: Setting, after: Setting, ladder: Sequence[int]) -> int:
    """The farthest value from the nearest one that was there."""
    return max(min(rungs(o, v, ladder) for o in numbers(before)) for v in numbers(after))


def violations(p: Proposal, here: list[Policy], with_: Limits) -> list[str]:
    """What of one admitted proposal is not allowed, on its place alone."""
    new, old = numbers(p.setting), numbers(p.before)
    found = {
        "range": all(1 <= v <= 64 for v in new),
        "bounds": all((with_.low or 1) <= v <= (with_.high or 64) for v in new),
        "nothing": p.setting != p.before,
    }
    if p.emergency:
        found["open"] = not any(q.state in OPEN and q.emergency for q in here)
        return [name for name, fine in found.items() if not fine]
    same = [q for q in here if q.setting == p.setting]
    if p.origin.kind == "person":
        found["open"] = not any(q.state in OPEN for q in same)
        return [name for name, fine in found.items() if not fine]
    found["open"] = not any(q.state in OPEN for q in here)
    found["ladder"] = all(v in with_.ladder or v in old for v in new)
    found["step"] = longest(p.before, p.setting, with_.ladder) <= with_.step
    recent = NOW_US - round(with_.cooldown_s * SECOND_US)
    refused = ("rejected", "failed", "expired", "reverted")
    tried = [v for q in here if q.applied_us is not None for v in numbers(q.setting)] + old
    beyond = [v for v in with_.ladder if max(tried) < v <= new[0] or new[0] <= v < min(tried)]
    if p.origin.kind == "rule" and p.setting.value is not None:
        found["beyond"] = len(beyond) <= with_.ladder_steps
    found["cooldown"] = not any(q.state in refused and q.updated_us > recent for q in same)
    if p.setting.value is not None and not p.emergency:
        up = p.setting.value > old[0]
        found["blacklist"] = not any(
            q.state == "reverted"
            and not q.emergency
            and q.updated_us > recent
            and q.setting.value is not None
            and q.setting.value != q.before.value
            and (q.setting.value > (q.before.value or 0)) == up
            for q in here
        )
    since = NOW_US - 3600 * SECOND_US
    hour = [q for q in here if q.applied_us is not None and q.applied_us > since]
    moved = sum(longest(q.before, q.setting, with_.ladder) for q in hour)
    found["hour"] = moved + longest(p.before, p.setting, with_.ladder) <= with_.steps_per_hour
    steady = NOW_US - round(with_.flip_s * SECOND_US)
    standing = ("applying", "on_trial", "paused", "in_force", "kept")
    found["flip"] = not any(
        q.state in standing
        and not q.emergency
        and q.applied_us is not None
        and q.applied_us > steady
        and ((max(new) > max(old), min(new) < min(old)) in ((True, False), (False, True)))
        and (
            (max(numbers(q.setting)) > max(numbers(q.before))),
            (min(numbers(q.setting)) < min(numbers(q.before))),
        )
        == (min(new) < min(old), max(new) > max(old))
        for q in here
    )
    rested = NOW_US - round(with_.dwell_s * SECOND_US)
    found["dwell"] = not any(q.applied_us is not None and q.applied_us > rested for q in here)
    return [name for name, fine in found.items() if not fine]


@pytest.mark.parametrize("tight", TIGHT, ids=lambda tight: next(iter(tight)))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    proposed=st.lists(proposals(), min_size=1, max_size=3),
    past=st.lists(pasts(), max_size=4),
    replicas=st.integers(1, 4),
)
def test_nothing_admitted_violates_a_guardrail(
    tight: dict[str, Any], proposed: list[Proposal], past: list[Policy], replicas: int
) -> None:
    with_ = msgspec.structs.replace(LAX, **tight)
    admitted, denied = admit(
        proposed,
        Around(policies=tuple(past), specs=SPECS, replicas=replicas),
        limits=lambda proposal: with_,
        now_us=NOW_US,
    )
    assert len(admitted) + len(denied) == len(proposed)
    assert {one.guardrail for one in denied} <= {rail.name for rail in RAILS}
    assert all(one.words for one in denied)
    for p in admitted:
        here = [q for q in past if q.knob == p.knob]
        assert violations(p, here, with_) == [], p
    assert len({p.knob for p in admitted}) == len(admitted)
    ordinary: list[Any] = [p for p in admitted if not p.emergency]
    waiting = sum(q.state in ("proposed", "pending", "approved") for q in past)
    assert not ordinary or waiting + len(ordinary) <= with_.max_pending
    assert not ordinary or replicas <= with_.max_replicas
    by_loop = [p for p in ordinary if p.origin.kind != "person"]
    hour_ago = NOW_US - 3600 * SECOND_US
    applied = sum(q.applied_us is not None and q.applied_us > hour_ago for q in past)
    assert not by_loop or applied + len(by_loop) <= with_.max_per_hour

"""One step of the loop, free of I/O: everything that decides, on one screen.

::

    windows, read-back ──► take in ──► judge ──► heed ──► start ──► propose ──► expire ──► wish
                            │            │         │        │          │
       restarts, strangers' ┘   kept or  │  pins,  │ plan   │  rules,  │ guardrails,
       changes, applied       reverting, ┘ freezes ┘ frozen ┘  plant,  ┘ mode
                                taught                         learner

The shell (``controller/serve.py``) loads ``LoopState`` and ``Seen``, calls ``step``, commits all of
the answer in one transaction, and only then acts on ``desired``. Given the same arguments the
answer is the same, bit for bit.
"""

from __future__ import annotations

from random import Random

from controller.desired import wishes
from controller.drifting import follow_drift
from controller.emergencies import release
from controller.holdback.running import hold_back
from controller.holdback.wishing import held
from controller.learning.doubting import doubt
from controller.learning.teaching import teach
from controller.memory_wall import heed_wall
from controller.overriding import check_ground, end_overrides, heed
from controller.proposing import propose
from controller.reading import take_in
from controller.rule_judging import judge_rules
from controller.state import Draft, LoopState, Seen, Step
from controller.trial import blocks
from controller.trial.confirming import confirm, size
from controller.trial.judging import judge
from controller.trial.starting import start
from controller.trial.suspending import suspend


def step(state: LoopState, seen: Seen, *, now_us: int, rng: Random) -> Step:
    """Take in what is seen; return what should change and why."""
    draft = Draft(state, now_us=now_us, rng=rng)
    draft.remember(seen)
    if state.control.detached:
        return finish(draft, skew_us=seen.skew_us)
    heed_wall(draft, seen)
    take_in(draft, seen)
    end_overrides(draft)
    follow_drift(draft, seen)
    doubt(draft, seen)
    if not (state.control.hold or state.control.killed):
        check_ground(draft, seen)
        if not seen.blind:
            judge(draft, seen)
            teach(draft, seen)
            confirm(draft, seen)
        judge_rules(draft, seen)
        release(draft, seen)
        heed(draft)
        suspend(draft)
        if not seen.blind:
            start(draft, seen)
            propose(draft, seen)
            size(draft, seen)
        expire(draft)
    hold_back(draft, seen)
    return finish(draft, skew_us=seen.skew_us)


def expire(draft: Draft) -> None:
    """Proposals that nobody answered in time are over, and approvals that could not begin."""
    causes = {"pending": "nobody answered in time", "approved": "it could not begin in time"}
    for policy in draft.in_state("pending", "approved"):
        if policy.expires_us is not None and policy.expires_us <= draft.now_us:
            draft.move(policy, "expired", cause=causes[policy.state])


def finish(draft: Draft, *, skew_us: int) -> Step:
    """The draft as a value, with the wish that follows from it."""
    trial = draft.trial
    if trial is not None and trial.state == "running" and blocks.open_block(trial) is None:
        trial = blocks.begin(trial, now_us=draft.now_us)
    back = held(draft.noted, now_us=draft.now_us, skew_us=skew_us)
    wish = wishes(
        draft.state.baseline,
        draft.policies.values(),
        trial if trial is not None and trial.state != "done" else back,
        draft.state.control,
        draft.overrides.values(),
        on_kill=draft.declared.target.on_kill,
        now_us=draft.now_us,
        skew_us=skew_us,
    )
    return Step(
        born=tuple(draft.born),
        moves=tuple(draft.moves),
        amends=tuple(draft.amends),
        trial=trial if trial != draft.state.trial else None,
        adopted=tuple(draft.adopted),
        ended=tuple(draft.ended),
        decisions=tuple(draft.decisions),
        learners=tuple(draft.learners),
        told=draft.told,
        facts=tuple(draft.facts),
        last_reads=draft.last_reads,
        timers=draft.timers,
        desired=wish.shared,
        apart=wish.apart,
        segments=tuple(draft.segments),
        past=draft.past,
        noted=draft.noted,
        drift=draft.drift,
    )

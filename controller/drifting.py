"""Drift in one step of the loop: blocks that closed are taken in; an alarm is told once.

The alarm itself stops nothing but the start of trials (guardrail ``drift``). A declared change
explains whatever drifts: while it lasts nothing is taken in, and what was usual before it is
forgotten, an alarm with it. So a person who knows why latencies moved says so with
``trimtab changes declare``, and need not wait.
"""

from __future__ import annotations

from controller.drift.following import Alarm, DriftState
from controller.state import Draft, Seen
from signals.events import MICROS


def follow_drift(draft: Draft, seen: Seen) -> None:
    """Take in what closed, and tell of an alarm that began or is over."""
    before = draft.drift
    settle_us = draft.declared.guardrails.settle_s * MICROS
    standing = (c for c in draft.state.changes if c.suspends(draft.now_us, settle_us=settle_us))
    change = next(standing, None)
    for block in seen.drift:
        if change is None:
            draft.drift = draft.drift.taking(block, draft.declared.drift)
        else:
            draft.drift = draft.drift.forgotten(to_us=block.to_us)
    if change is not None and draft.drift.alarm is not None:
        draft.drift = draft.drift.forgotten(to_us=draft.drift.to_us)
    cause = "settled" if change is None else f"explained by {change.id}: {change.words}"
    _tell(draft, before, cause)


def _tell(draft: Draft, before: DriftState, cause: str) -> None:
    was, now = before.alarm, draft.drift.alarm
    if now is not None and was is None:
        draft.note("drift.alarm", draft.declared.name, **_said(now))
    if was is not None and now is None:
        lasted_s = round((draft.now_us - was.since_us) / MICROS)
        draft.note("drift.over", draft.declared.name, cause=cause, lasted_s=lasted_s)


def _said(alarm: Alarm) -> dict[str, object]:
    return {"words": alarm.words, "figures": alarm.figures, "digest": alarm.digest}

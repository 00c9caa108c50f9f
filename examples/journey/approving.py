"""Chapters in which people act: ada raises the mode or proposes, bob approves what he was shown."""

from __future__ import annotations

import time
from typing import Any

from examples.journey.observing import tell
from examples.journey.rest import Caller, RefusedError
from examples.journey.sample import BASELINE_CAP, KNOB, LADDER, TARGET
from examples.journey.stage import Stage
from examples.journey.trial_watch import TrialWatch, undo_words

PENDING_S = 60.0
AFTER_CYCLES = 1.05


def approve_law(stage: Stage, ada: Caller, bob: Caller, *, began_s: float) -> dict[str, Any]:
    """The law is proposed for approval, approved by another person, tried and judged."""
    stage.screen.chapter("Approve: a person says yes to the law, and it is put on trial")
    law = pending_law(stage, ada)
    cycle_s = stage.pace.cycle_s
    before = stage.figures.period("before (observe)", began_s, time.time(), cycle_s=cycle_s)
    approve(stage, bob, law)
    watch = TrialWatch(stage, law["id"])
    watch.begun()
    judged = watch.ended()
    stage.screen.say(f"verdict  {watch.trial['ruling']['words']}")
    if judged["state"] != "kept":
        stage.screen.say(undo_words(stage, judged))
    ended_s = time.time()
    pause_s = AFTER_CYCLES * cycle_s
    stage.wait(
        "figures after the verdict", lambda: time.time() - ended_s >= pause_s, pause_s + 10.0
    )
    state = stage.policy(law["id"])["state"]
    after = stage.figures.period(f"after ({state})", ended_s, time.time(), cycle_s=cycle_s)
    stage.screen.table(
        ["", "batch tokens/s", "live attainment"],
        [period.cells() for period in (before, *watch.arms(), after)],
    )
    return stage.policy(law["id"])


def pending_law(stage: Stage, ada: Caller) -> dict[str, Any]:
    """Raise the knob's mode to approve, and wait for the law."""
    ada.patch(f"/v1/targets/{TARGET}/knobs/{KNOB}", {"mode": "approve"})
    stage.screen.say(f"{ada.name} (operator) raised the mode of {KNOB} to approve")
    found: list[dict[str, Any]] = []

    def seen() -> bool:
        found[:] = [p for p in stage.policies(state="pending") if p["setting"].get("law")]
        return bool(found)

    stage.wait("the law to wait for approval", seen, PENDING_S)
    tell(stage, found[0])
    return found[0]


def approve(stage: Stage, by: Caller, policy: dict[str, Any]) -> None:
    """Approve exactly what was shown; where the risk is high a second person does too."""
    shown = {"shown_digest": policy["shown_digest"]}
    path = f"/v1/policies/{policy['id']}/approve"
    answered = by.post(path, shown)
    stage.screen.say(
        f"{by.name} (operator) approved {policy['id']}, as shown (digest {policy['shown_digest']})"
    )
    if answered["state"] == "pending":
        second = stage.invite("eve", "approver")
        second.post(path, shown)
        stage.screen.say(f"its risk is {policy['risk']}, so {second.name} (approver) did too")


def propose(stage: Stage, by: Caller, value: int, reason: str) -> dict[str, Any]:
    """A change by hand."""
    made: dict[str, Any] = by.post(
        "/v1/policies",
        {"target": TARGET, "knob": KNOB, "setting": {"value": value}, "reason": reason},
    )
    stage.screen.say(f"{by.name} (operator) proposed {made['words']}: “{reason}”")
    return made


def bad_change(stage: Stage, ada: Caller, bob: Caller) -> dict[str, Any]:
    """The ladder's lowest cap, forced through by two people; found out and taken back."""
    stage.screen.chapter("A bad change by hand, found out and taken back")
    made = propose(stage, bob, LADDER[0], "SAMPLE of a bad idea: surely fewer at once is calmer")
    try:
        approve(stage, bob, made)
    except RefusedError as refused:
        stage.screen.say(f"bob can't approve his own proposal ({refused.status})")
    approve(stage, ada, made)
    watch = TrialWatch(stage, made["id"])
    watch.begun()
    judged = watch.ended()
    ruling = watch.trial["ruling"]
    stage.screen.say(f"verdict  {ruling['words'] if ruling else judged['cause']}")
    stage.screen.say(undo_words(stage, judged))
    stage.screen.table(
        ["", "batch tokens/s", "live attainment"], [period.cells() for period in watch.arms()]
    )
    return stage.policy(made["id"])


def no_data(stage: Stage, ada: Caller, bob: Caller) -> dict[str, Any]:
    """A harmless change while nobody sends anything: no data is neither good nor bad."""
    stage.screen.chapter("A change by hand without any traffic")
    made = propose(stage, ada, 2 * BASELINE_CAP, "nobody is there to notice")
    approve(stage, bob, made)
    watch = TrialWatch(stage, made["id"])
    watch.begun()
    judged = watch.ended()
    stage.screen.say(f"verdict  {watch.trial['ruling']['words']}")
    stage.screen.say(undo_words(stage, judged))
    return stage.policy(made["id"])

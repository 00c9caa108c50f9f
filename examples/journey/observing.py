"""Chapter: observe mode says what the loop would do, and nothing is changed."""

from __future__ import annotations

from typing import Any

from examples.journey.sample import KNOB, TARGET
from examples.journey.stage import Stage

RHYTHM_CYCLES = 6
SLACK_S = 40.0


def observe(stage: Stage) -> dict[str, Any]:
    """Wait until the plant's law is observed; tell it. The policy."""
    stage.screen.chapter("Observe: what the loop would do")
    stage.screen.say(f"mode of {KNOB}: observe. Nothing is changed; the loop only says.")
    found: list[dict[str, Any]] = []

    def seen() -> bool:
        found[:] = [p for p in stage.policies(state="observed") if p["origin"]["kind"] == "plant"]
        return bool(found)

    stage.wait(
        "the loop to say what it would do",
        seen,
        RHYTHM_CYCLES * stage.pace.cycle_s + SLACK_S,
        progress=lambda: progress(stage),
    )
    tell(stage, found[0])
    before = stage.policies(state="applying") + stage.policies(state="on_trial")
    observed = next(
        knob for knob in stage.viewer.get(f"/v1/targets/{TARGET}")["knobs"] if knob["knob"] == KNOB
    )["observed"]
    stage.screen.say(
        f"and the engine still has {KNOB} = {observed['value']}; {len(before)} policies in force"
    )
    return found[0]


def tell(stage: Stage, policy: dict[str, Any]) -> None:
    """A policy as a person reads it."""
    by = f"{policy['origin']['kind']}:{policy['origin']['name']}"
    stage.screen.say(f"{policy['state']}  {policy['words']}\n  by {by}: {policy['reason']}")


def progress(stage: Stage) -> str:
    """How the SAMPLE traffic goes."""
    sent = stage.sent()
    rate = stage.figures.latest("batch.tokens_per_s")
    waits = stage.figures.latest("batch.waiting")
    return (
        f"SAMPLE traffic: {sent.get('jobs', 0)} jobs, {sent.get('chats', 0)} chats, "
        f"{sent.get('feedback', 0)} acts of users; batch "
        f"{'–' if rate is None else f'{rate:.0f}'} tokens/s, "
        f"{'–' if waits is None else f'{waits:.0f}'} waiting"
    )

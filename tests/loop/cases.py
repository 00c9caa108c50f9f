"""What the harder cases share: a plant on which nothing matters, an emergency, an arm."""

from __future__ import annotations

from collections.abc import Callable

from policies.lifecycle import State
from policies.policy import Policy
from tests.loop.world import World

FAST = "batch.tokens_per_s > 300.0"
"""True in the world at a cap of 8, false at 4 and below."""


WON: tuple[State, ...] = ("approved", "applying", "on_trial", "kept")


def anything(cap: int, intent: str) -> bool:
    """Nothing matters."""
    return True


def emergency(**more: object) -> list[dict[str, object]]:
    """An emergency rule that lowers the cap while batch is fast."""
    rule = {"id": "fast", "when": FAST, "for": "3s", "emergency": True}
    return [{**rule, "propose": {"active_cap": "down"}, **more}]


def in_arm(world: World, arm: str) -> Callable[[], bool]:
    """Whether the engine is in a block of that arm."""

    def now() -> bool:
        stamp = world.engine.stamp.trial
        return stamp is not None and stamp.arm == arm

    return now


def kept(world: World, policy: Policy) -> Policy:
    """The policy as if its trial had been won long ago; the engine has it a second later."""
    now_us = world.clock_us()
    with world.store.write() as tx:
        policy = tx.policy(policy.id)
        for after in WON:
            if policy.state != after:
                policy = tx.move(policy, after, actor="test", at_us=now_us)
    world.run(1)
    return world.policy(policy.id)

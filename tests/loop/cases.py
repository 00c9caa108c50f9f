"""What the harder cases share: a plant on which nothing matters, an emergency, an arm."""

from __future__ import annotations

from collections.abc import Callable

from tests.loop.world import World

FAST = "batch.tokens_per_s > 300.0"
"""True in the world at a cap of 8, false at 4 and below."""


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

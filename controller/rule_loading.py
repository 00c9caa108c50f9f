"""A target's rules, loaded: type-checked, and emergencies held to the safer direction. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controller.config.targets import TargetSettings
from controller.rules.firing import Rules, compile_rules
from controller.rules.safety import check_emergencies
from controller.rules.settings import RuleSettings


def load_rules(
    target: TargetSettings,
    metrics: Iterable[str],
    *,
    declared: Sequence[RuleSettings] | None = None,
) -> Rules:
    """The rules of a target, or others ``declared`` for it. Raises ``Rejected``."""
    chosen = target.rules if declared is None else declared
    check_emergencies(
        chosen,
        safer={name: one.safer for name, one in target.knobs.declared.items()},
        baseline=target.baseline,
    )
    return compile_rules(chosen, intents=target.intents, metrics=metrics)

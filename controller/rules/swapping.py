"""One set of rules in place of another: what differs, and which timers stay. Pure.

A rule whose condition reads as before keeps its timer, whatever else of it changed: what has held
for ten seconds has held for ten seconds, and a cooldown is not over because somebody saved a file.

>>> from controller.rules.firing import RuleTimer, Timers, compile_rules
>>> from controller.rules.settings import RuleSettings
>>> def rules(when):
...     return compile_rules([RuleSettings.model_validate(
...         {"id": "slow", "when": when, "propose": {"active_cap": 4}})],
...         intents=["live"], metrics=[])
>>> before, other = rules("live.waiting > 1.0"), rules("live.waiting > 2.0")
>>> held = Timers(of={"slow": RuleTimer(truth="true", since_s=1.0, seen_s=9.0)})
>>> list(carried(held, before, before).of), list(carried(held, before, other).of)
(['slow'], [])
"""

from __future__ import annotations

from msgspec import Struct

from controller.rules.firing import Rules, Timers


class Difference(Struct, frozen=True, kw_only=True):
    """Rule id -> digest; of changed ones the digest before and after."""

    added: dict[str, str]
    removed: dict[str, str]
    changed: dict[str, tuple[str, str]]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


def difference(before: Rules, after: Rules) -> Difference:
    """What differs between two sets, by what the rules say; their order is no difference."""
    old = {rule.id: rule.digest for rule in before.rules}
    new = {rule.id: rule.digest for rule in after.rules}
    return Difference(
        added={name: one for name, one in new.items() if name not in old},
        removed={name: one for name, one in old.items() if name not in new},
        changed={name: (old[name], one) for name, one in new.items() if old.get(name, one) != one},
    )


def carried(timers: Timers, before: Rules, after: Rules) -> Timers:
    """The timers of rules whose condition is the same in both."""
    same = {rule.id for rule in after.rules if _when(before, rule.id) == rule.when}
    return Timers(of={name: timer for name, timer in timers.of.items() if name in same})


def _when(rules: Rules, rule_id: str) -> str | None:
    found = rules.get(rule_id)
    return None if found is None else found.when

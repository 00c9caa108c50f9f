"""Declared triggers: CEL conditions over features, with ``for:`` and a cooldown. Pure.

A condition is compiled and type-checked once, when it is loaded: a misspelt feature or ``1``
where ``1.0`` is meant is refused there, with its position. Each evaluation answers true, false or
UNKNOWN (a feature is missing), and UNKNOWN is not true: it resets ``for:``.

::

    condition   ▁▁▁▁████████████████▁▁▁███?????████████
    for: 5 s        └──5 s──► fires    └ reset ┘└──5 s──► fires, unless in cooldown

>>> rules = compile_rules([RuleSettings.model_validate(
...     {"id": "slow", "when": "live.attainment < 0.9", "for": "4s",
...      "propose": {"active_cap": "down"}})], intents=["live"], metrics=[])
>>> fired, timers = fire(rules, Timers(), {"live.attainment": 0.8}, now_s=10.0)
>>> fired, timers = fire(rules, timers, {"live.attainment": 0.8}, now_s=14.0)
>>> fired[0].reason
'rule slow: live.attainment < 0.9 for 4 s (live.attainment = 0.8)'
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct, structs

from controller.rules.conditions import Condition, Conditions, feature_names
from controller.rules.settings import Move, RuleSettings
from policies.knobs import KnobSpec
from signals.errors import Rejected

MAX_GAP_S: Final = 5.0
"""Looked at less often than this, a condition is not known to have held: its time starts anew."""
LOAD: Final = "target.arrivals_per_s"
"""Always kept as evidence where known, so that what follows can be compared at equal load."""

Truth = Literal["true", "false", "unknown"]


class Rule(Struct, frozen=True, kw_only=True):
    """One loaded rule. ``reads``: the features that its condition names."""

    id: str
    when: str
    reads: tuple[str, ...]
    for_s: float
    cooldown_s: float
    emergency: bool
    propose: dict[str, Move]
    rearm: int = 0

    @property
    def digest(self) -> str:
        """12 hex digits of what the rule says: the version of what it proposes."""
        said = [self.id, self.when, self.for_s, self.cooldown_s, self.emergency, self.propose]
        said += [self.rearm] if self.rearm else []
        return hashlib.sha256(msgspec.json.encode(said, order="sorted")).hexdigest()[:12]


class Rules(Struct, frozen=True, kw_only=True):
    """Loaded rules in the order declared, with their compiled conditions."""

    rules: tuple[Rule, ...] = ()
    conditions: dict[str, Condition] = {}

    def get(self, rule_id: str) -> Rule | None:
        """The rule of that id."""
        return next((rule for rule in self.rules if rule.id == rule_id), None)

    def not_applicable(self, specs: Iterable[KnobSpec]) -> dict[str, str]:
        """Rule id -> why it can do nothing on an engine with these knobs."""
        known = {spec.name: spec for spec in specs}
        found = {rule.id: _unsupported(rule, known) for rule in self.rules}
        return {rule_id: why for rule_id, why in found.items() if why is not None}


class RuleTimer(Struct, frozen=True, kw_only=True):
    """How a rule stands: its condition's last answer, since when, and when it last fired."""

    truth: Truth
    since_s: float
    seen_s: float
    fired_s: float | None = None


class Timers(Struct, frozen=True, kw_only=True):
    """The timers of all rules, by id: a plain value that can be stored."""

    of: dict[str, RuleTimer] = {}


class Fired(Struct, frozen=True, kw_only=True):
    """A rule whose condition has held long enough, and the figures it saw."""

    rule: Rule
    held_s: float
    reason: str
    evidence: dict[str, float]


def compile_rules(
    declared: Iterable[RuleSettings], *, intents: Iterable[str], metrics: Iterable[str]
) -> Rules:
    """Compile and type-check every rule; ``intents`` and ``metrics`` are the declared names.

    Raises ``Rejected`` (field ``rules[n].when`` or ``rules[n].id``) with the rule, the position
    and near matches.
    """
    conditions = Conditions(feature_names(intents, metrics))
    rules: list[Rule] = []
    compiled: dict[str, Condition] = {}
    for index, one in enumerate(declared):
        if one.id in compiled:
            raise Rejected(
                f"rule {one.id} is declared twice", field=f"rules[{index}].id", value=one.id
            )
        compiled[one.id] = conditions.compile(one.id, one.when, field=f"rules[{index}].when")
        rules.append(_rule(one, compiled[one.id].reads))
    return Rules(rules=tuple(rules), conditions=compiled)


def fire(
    rules: Rules, timers: Timers, features: Mapping[str, float], *, now_s: float
) -> tuple[tuple[Fired, ...], Timers]:
    """Which rules fire now, and the timers afterwards. Not-finite figures count as missing."""
    known = {name: float(value) for name, value in features.items() if math.isfinite(value)}
    fired: list[Fired] = []
    after: dict[str, RuleTimer] = {}
    for rule in rules.rules:
        truth = rules.conditions[rule.id].truth(known)
        timer = _advance(timers.of.get(rule.id), truth, now_s)
        if _due(rule, timer, now_s):
            fired.append(_fired(rule, timer, known, now_s))
            timer = structs.replace(timer, fired_s=now_s)
        after[rule.id] = timer
    return tuple(fired), Timers(of=after)


def clear_for_s(timers: Timers, rule_id: str, *, now_s: float) -> float:
    """How long the rule's condition has been known false; 0 while it is true or UNKNOWN."""
    timer = timers.of.get(rule_id)
    if timer is None or timer.truth != "false":
        return 0.0
    return max(0.0, now_s - timer.since_s)


def _rule(one: RuleSettings, reads: tuple[str, ...]) -> Rule:
    return Rule(
        id=one.id,
        when=one.when,
        reads=reads,
        for_s=one.for_s,
        cooldown_s=one.cooldown_s,
        emergency=one.emergency,
        propose=dict(one.propose),
        rearm=one.rearm,
    )


def _unsupported(rule: Rule, specs: Mapping[str, KnobSpec]) -> str | None:
    for knob, move in rule.propose.items():
        spec = specs.get(knob)
        if spec is None:
            return f"the engine has no knob {knob}; it has {', '.join(sorted(specs)) or 'none'}"
        try:
            spec.check(spec.boot if isinstance(move, str) else move, field=knob)
        except Rejected as error:
            return error.detail
    return None


def _advance(before: RuleTimer | None, truth: Truth, now_s: float) -> RuleTimer:
    if before is None:
        return RuleTimer(truth=truth, since_s=now_s, seen_s=now_s)
    went_on = before.truth == truth and now_s - before.seen_s <= MAX_GAP_S
    since_s = before.since_s if went_on else now_s
    return structs.replace(before, truth=truth, since_s=since_s, seen_s=now_s)


def _due(rule: Rule, timer: RuleTimer, now_s: float) -> bool:
    if timer.truth != "true" or now_s - timer.since_s < rule.for_s:
        return False
    return timer.fired_s is None or now_s - timer.fired_s >= rule.cooldown_s


def _fired(rule: Rule, timer: RuleTimer, features: Mapping[str, float], now_s: float) -> Fired:
    seen = {name: features[name] for name in rule.reads if name in features}
    figures = ", ".join(f"{name} = {value:.4g}" for name, value in seen.items())
    held = f" for {rule.for_s:g} s" if rule.for_s else ""
    load: dict[str, Any] = {LOAD: features[LOAD]} if LOAD in features else {}
    return Fired(
        rule=rule,
        held_s=now_s - timer.since_s,
        reason=f"rule {rule.id}: {rule.when}{held} ({figures})",
        evidence=load | seen,
    )

"""What rules would have done: the very ``fire`` of the loop, led through looks at the past. Pure.

A firing is followed until its condition is known to be false. Whether that happened by itself is
for whoever knows what was changed meanwhile to say.

::

    condition  ▁▁▁████████████████▁▁▁▁        held = since ──► known false
               since └─for─► fires  │         clear = fires ──► known false
                              └─────┘ clear

>>> from controller.rules.firing import compile_rules
>>> from controller.rules.settings import RuleSettings
>>> rules = compile_rules([RuleSettings.model_validate(
...     {"id": "slow", "when": "live.attainment < 0.9", "for": "5s",
...      "propose": {"active_cap": "down"}})], intents=["live"], metrics=[])
>>> past = Retracer(rules, follow_s=60.0, most=10)
>>> for now_s, value in ((0, 0.8), (5, 0.8), (10, 0.8), (15, 0.95)):
...     past.look({"live.attainment": value}, now_us=now_s * 1_000_000)
>>> found = past.results()[0]
>>> found.fired, found.firings[0].at_us, found.firings[0].held_s, found.firings[0].clear_s
(1, 5000000, 15.0, 10.0)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, structs

from controller.rules.firing import Fired, Rule, Rules, Timers, fire
from signals.events import MICROS

Outcome = Literal["cleared", "lasted", "unknown"]
"""Of a firing's condition: known false in time; true until then; nobody can say."""


class PastFiring(Struct, frozen=True, kw_only=True):
    """One time that a rule would have fired. Times in µs since 1970.

    ``held_s``: from when the condition began to hold to when it was last known to, cut off where
    it was followed no further. ``clear_s``: from firing to the first look at which the condition
    was known to be false; None: at none that it was followed to.
    """

    at_us: int
    since_us: int
    reason: str
    evidence: dict[str, float]
    held_s: float
    clear_s: float | None = None
    outcome: Outcome = "unknown"


class PastRule(Struct, frozen=True, kw_only=True):
    """One rule over all looks. ``true``, ``unknown``: looks with that answer.

    ``missing``: of the looks that were unknown, at how many each feature that it reads was missing.
    ``firings``: the first ``most``; ``fired`` counts all.
    """

    rule: Rule
    looks: int
    true: int
    unknown: int
    missing: dict[str, int]
    fired: int
    firings: tuple[PastFiring, ...]


class Retracer:
    """Leads rules through looks, which come in order of time, and keeps what they did.

    ``follow_s``: so long after firing its end is waited for. ``most``: firings kept of each rule.
    It begins with no timers, as a loop does that was just started.
    """

    def __init__(self, rules: Rules, *, follow_s: float, most: int) -> None:
        self._rules = rules
        self._timers = Timers()
        self._traces = {rule.id: _Trace(follow_s, most) for rule in rules.rules}

    def look(self, features: Mapping[str, float], *, now_us: int, counts: bool = True) -> None:
        """One look. ``counts`` False: after the span; firings are only followed to their end."""
        fired, self._timers = fire(self._rules, self._timers, features, now_s=now_us / MICROS)
        firing = {one.rule.id: one for one in fired}
        for rule in self._rules.rules:
            trace, timer = self._traces[rule.id], self._timers.of[rule.id]
            trace.follow(timer.truth, now_us)
            if not counts:
                continue
            missing = [name for name in rule.reads if name not in features]
            trace.count(timer.truth, missing)
            if rule.id in firing:
                trace.begin(firing[rule.id], now_us)

    def results(self) -> list[PastRule]:
        """What became of each rule, in the order declared."""
        return [self._traces[rule.id].told(rule) for rule in self._rules.rules]


class _Trace:
    """What one rule did."""

    def __init__(self, follow_s: float, most: int) -> None:
        self._follow_us = round(follow_s * MICROS)
        self._most = most
        self._looks = self._true = self._unknown = self._fired = 0
        self._missing: Counter[str] = Counter()
        self._firings: list[PastFiring] = []
        self._open: dict[int, bool] = {}
        """Places in ``firings`` that are followed -> whether the condition held ever since."""

    def count(self, truth: str, missing: list[str]) -> None:
        """One look's answer."""
        self._looks += 1
        self._true += truth == "true"
        if truth == "unknown":
            self._unknown += 1
            self._missing.update(missing)

    def begin(self, fired: Fired, now_us: int) -> None:
        """It fired now."""
        self._fired += 1
        if len(self._firings) == self._most:
            return
        self._open[len(self._firings)] = True
        self._firings.append(
            PastFiring(
                at_us=now_us,
                since_us=now_us - round(fired.held_s * MICROS),
                reason=fired.reason,
                evidence=dict(fired.evidence),
                held_s=fired.held_s,
            )
        )

    def follow(self, truth: str, now_us: int) -> None:
        """Bring the firings that are not over up to now."""
        for place, unbroken in list(self._open.items()):
            one = self._firings[place]
            since_s = (now_us - one.since_us) / MICROS
            if truth == "false":
                held_s = since_s if unbroken else one.held_s
                clear_s = (now_us - one.at_us) / MICROS
                self._end(place, held_s=held_s, clear_s=clear_s, outcome="cleared")
            elif truth == "unknown":
                self._open[place] = False
                self._if_late(place, now_us, "unknown")
            else:
                if unbroken:
                    self._firings[place] = structs.replace(one, held_s=since_s)
                self._if_late(place, now_us, "lasted" if unbroken else "unknown")

    def told(self, rule: Rule) -> PastRule:
        """The sum of it; what is still followed stays unknown."""
        return PastRule(
            rule=rule,
            looks=self._looks,
            true=self._true,
            unknown=self._unknown,
            missing=dict(sorted(self._missing.items())),
            fired=self._fired,
            firings=tuple(self._firings),
        )

    def _if_late(self, place: int, now_us: int, outcome: Outcome) -> None:
        if now_us - self._firings[place].at_us >= self._follow_us:
            self._end(place, outcome=outcome)

    def _end(self, place: int, **changes: object) -> None:
        self._firings[place] = structs.replace(self._firings[place], **changes)
        del self._open[place]

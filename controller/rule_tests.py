"""Back-tests of rules: the stored past through the loop's own view and ``fire``, and what it saw.

One look at the end of each 5 s window, when that window is whole: the view of the last 10 s is then
what the loop had, but for what came late. The loop looks four times a second and sees the window in
progress too, so a firing is told to within 5 s. What a rule would have changed is not played on:
the past is as it was, whatever the rule would have done.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct

from controller.history.makers import Makers
from controller.history.settings_then import ReadBack, ReplicaThen, replica_at
from controller.looking import VIEW_SPAN_S
from controller.rating import Rating, ScopedRates
from controller.rules.features import RATE
from controller.rules.firing import Rule, Rules
from controller.rules.moves import moved
from controller.rules.retracing import PastFiring, PastRule, Retracer
from controller.rules.settings import RuleTestSettings
from controller.state import Declared
from controller.store.port import Tx
from policies.knobs import KnobSpec
from signals.events import MICROS
from signals.features.model import ATOM_S, Features
from signals.features.view import feature_values
from signals.features.windows import start_of

ATOM_US: Final = ATOM_S * MICROS
READ_US: Final = 600 * MICROS
"""Windows of ten minutes are read at once."""
RATES_EVERY_US: Final = 60 * MICROS
"""Business rates of the past are read anew this often; they are of hours."""
NOT_EVALUATED: Final = (
    "not evaluated: guardrails are asked about now, with the policies that are there now;"
    " `trimtab guardrails evaluate` does"
)

Recovery = Literal["by itself", "after a change", "settings unknown", "no", "unknown"]
"""How the condition cleared in time, if it did."""


class WouldPropose(Struct, frozen=True, kw_only=True):
    """What a firing would have asked for, from what the first replica had then.

    ``to`` None: nothing; ``why`` says why.
    """

    knob: str
    before: str | None
    to: int | None
    why: str | None = None


class TestedFiring(Struct, frozen=True, kw_only=True):
    """One firing. ``recovered_s``: from firing until its condition was known to be false."""

    at_us: int
    held_s: float
    reason: str
    evidence: dict[str, float]
    proposes: tuple[WouldPropose, ...]
    recovery: Recovery
    recovered_s: float | None


class TestedRule(Struct, frozen=True, kw_only=True):
    """One rule. Shares are of all looks; ``missing``: share of looks unknown for want of it.

    ``recovered_alone``: of the firings listed, those whose condition cleared in time while no
    setting changed.
    """

    id: str
    when: str
    digest: str
    emergency: bool
    looks: int
    true_share: float
    unknown_share: float
    missing: dict[str, float]
    fired: int
    per_hour: float
    recovered_alone: int
    firings: tuple[TestedFiring, ...]


class RuleTest(Struct, frozen=True, kw_only=True):
    """A test. ``cut``: why it begins later, or ends earlier, than was asked; empty: it does not."""

    target: str
    from_us: int
    to_us: int
    resolution_s: int
    recovery_s: int
    cut: str
    guardrails: str
    rules: tuple[TestedRule, ...]


class PastViews(Struct, frozen=True, kw_only=True):
    """The views of a target's past. ``intents``: those that somebody reads, for the others cost."""

    features: Features
    rating: Rating
    target: str
    intents: tuple[str, ...]
    with_rates: bool

    def between(self, from_us: int, to_us: int) -> Iterator[tuple[int, Mapping[str, float]]]:
        """(moment, features) at the end of each 5 s window in (from, to]."""
        rates: ScopedRates = {}
        rated_us = 0
        for begins_us in range(from_us, to_us, READ_US):
            ends_us = min(begins_us + READ_US, to_us)
            since_us = begins_us - (VIEW_SPAN_S + ATOM_S) * MICROS
            windows = self.features.windows(self.target, from_us=since_us, to_us=ends_us)
            seconds = self.features.seconds(self.target, from_us=since_us, to_us=ends_us)
            for now_us in range(begins_us + ATOM_US, ends_us + 1, ATOM_US):
                if self.with_rates and now_us - rated_us >= RATES_EVERY_US:
                    rated_us = now_us
                    rates = self.rating.of(self.target, self.intents, at_us=now_us)
                span_us = now_us - VIEW_SPAN_S * MICROS
                yield (
                    now_us,
                    feature_values(
                        [w for w in windows if span_us - ATOM_US < w.key.start_us < now_us],
                        [s for s in seconds if span_us < s.to_us <= now_us],
                        now_us=now_us,
                        span_s=VIEW_SPAN_S,
                        intents=self.intents,
                        rates=rates,
                    ),
                )


def views_for(rules: Rules, declared: Declared, features: Features, rating: Rating) -> PastViews:
    """Views of all that these rules read."""
    reads = {name for rule in rules.rules for name in rule.reads}
    owners = {name.partition(".")[0] for name in reads}
    return PastViews(
        features=features,
        rating=rating,
        target=declared.name,
        intents=tuple(name for name in declared.target.intents if name in owners),
        with_rates=any(name.endswith(RATE) and not name.endswith("error_rate") for name in reads),
    )


def retraced(
    rules: Rules, views: PastViews, *, from_us: int, to_us: int, until_us: int, at: RuleTestSettings
) -> list[PastRule]:
    """Each rule over [from, to); firings are followed on to ``until_us``, as far as there is."""
    past = Retracer(rules, follow_s=at.recovery_s, most=at.max_firings)
    begins_us = start_of(from_us + ATOM_US - 1, ATOM_S)
    ends_us = min(until_us, to_us + at.recovery_s * MICROS)
    for now_us, features in views.between(begins_us, ends_us):
        past.look(features, now_us=now_us, counts=now_us <= to_us)
    return past.results()


class PastSettings:
    """What the first replica had at a time, and whether any replica's settings changed."""

    def __init__(self, tx: Tx, target: str, replica: str, read: Mapping[str, ReadBack]) -> None:
        self._tx = tx
        self._target = target
        self._replica = replica
        self._read = read
        self._makers = Makers(tx, target)

    def at(self, at_us: int) -> ReplicaThen:
        """The replica's settings then."""
        return replica_at(
            self._tx, self._makers, self._target, self._replica, at_us, read=self._read
        )

    def changed(self, from_us: int, to_us: int) -> bool | None:
        """Whether a setting changed in (from, to]; None: not everything then is known."""
        found = self._tx.segments(self._target, from_us=from_us, to_us=to_us + 1)
        if any(one.from_us > from_us and one.known for one in found):
            return True
        known = self.at(from_us).known and self.at(to_us).known
        return False if known and all(one.known for one in found) else None


def told(
    past: PastRule, declared: Declared, then: PastSettings, specs: Mapping[str, KnobSpec]
) -> TestedRule:
    """A rule's past with what it would have proposed, and how it recovered."""
    firings = tuple(
        TestedFiring(
            at_us=one.at_us,
            held_s=one.held_s,
            reason=one.reason,
            evidence=one.evidence,
            proposes=tuple(_proposes(past.rule, declared, then.at(one.at_us), specs)),
            recovery=_recovery(one, then),
            recovered_s=one.clear_s,
        )
        for one in past.firings
    )
    looks = max(1, past.looks)
    hours = past.looks * ATOM_S / 3600
    return TestedRule(
        id=past.rule.id,
        when=past.rule.when,
        digest=past.rule.digest,
        emergency=past.rule.emergency,
        looks=past.looks,
        true_share=past.true / looks,
        unknown_share=past.unknown / looks,
        missing={name: count / looks for name, count in past.missing.items()},
        fired=past.fired,
        per_hour=past.fired / hours if hours else 0.0,
        recovered_alone=sum(one.recovery == "by itself" for one in firings),
        firings=firings,
    )


def _proposes(
    rule: Rule, declared: Declared, then: ReplicaThen, specs: Mapping[str, KnobSpec]
) -> Sequence[WouldPropose]:
    found = []
    places = {one.place: one for one in then.places}
    for knob, move in rule.propose.items():
        spec, now = specs.get(knob), places.get(knob)
        if not then.known or now is None:
            why = then.why or "nothing was recorded of this knob"
            found.append(WouldPropose(knob=knob, before=None, to=None, why=why))
        elif spec is None:
            why = "the engine does not answer, so its knobs are unknown, or has no such knob"
            found.append(WouldPropose(knob=knob, before=now.words, to=None, why=why))
        else:
            ladder = declared.target.knobs.of(knob).values(spec)
            value = moved(move, now.value, ladder)
            idle = value is None or value == now.value
            why_not = "it is at the ladder's end, or there already" if idle else None
            to = None if idle else value
            found.append(WouldPropose(knob=knob, before=now.words, to=to, why=why_not))
    return found


def _recovery(one: PastFiring, then: PastSettings) -> Recovery:
    if one.outcome != "cleared" or one.clear_s is None:
        return "no" if one.outcome == "lasted" else "unknown"
    changed = then.changed(one.at_us, one.at_us + round(one.clear_s * MICROS))
    if changed is None:
        return "settings unknown"
    return "after a change" if changed else "by itself"

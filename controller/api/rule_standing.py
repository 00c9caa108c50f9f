"""How rules stand: what each reads, its last answer and since when, what it waits for."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from controller.api.ports import Services
from controller.notes import noted
from controller.rule_notes import RuleNotes, rule_notes, standing_of
from controller.rules.firing import Rule, RuleTimer
from signals.events import MICROS


class JudgedShown(Struct, frozen=True, kw_only=True):
    """What the delays of an emergency rule have shown of it, as it reads now.

    ``verdict`` null: none yet. ``suspended``: it did harm, and only proposes. ``prompt`` and
    ``delayed``: mean attainment of such episodes, null without any. ``e_harmed`` against "the delay
    makes no difference" where delayed ones end better, ``e_improved`` where prompt ones do.
    ``running``: an episode whose horizon is not over.
    """

    verdict: str | None
    suspended: bool
    words: str
    episodes: int
    delayed_episodes: int
    no_outcome: int
    prompt: float | None
    delayed: float | None
    e_harmed: float
    e_improved: float
    said_us: int | None
    running: bool


class RuleShown(Struct, frozen=True, kw_only=True):
    """A rule in force, and how it stood at the loop's last step.

    ``truth`` null: it has not been looked at since it was loaded. ``since_us``: since when it has
    had that answer. ``quiet_until_us``: it fires no sooner. ``not_applicable``: why it can do
    nothing on this engine; null: it can, or the engine does not answer. ``judged``: of emergencies.
    """

    target: str
    id: str
    when: str
    for_: str = field(name="for")
    cooldown: str
    emergency: bool
    propose: dict[str, int | str]
    digest: str
    reads: list[str]
    not_applicable: str | None
    truth: str | None
    since_us: int | None
    fired_us: int | None
    quiet_until_us: int | None
    judged: JudgedShown | None


class RulesShown(Struct, frozen=True, kw_only=True):
    """The rules in force. ``problem``: why the file as it is now is not; null: it is.

    ``restart``: settings in the file, beside rules, that wait for a restart.
    """

    items: list[RuleShown]
    problem: str | None
    restart: list[str]


def standing(services: Services, target: str) -> Iterator[RuleShown]:
    """A target's rules in force, in the order declared. Raises ``NotFound``."""
    rules = services.operations.target(target).rules
    seen = services.fleet.first(target).read(max_age_s=60.0) if rules.rules else None
    idle = {} if seen is None else rules.not_applicable(seen.knobs)
    timers = services.loop.timers(target).of
    with services.store.read() as tx:
        notes = rule_notes(noted(tx, target))
    for rule in rules.rules:
        judged = _judged(notes, rule) if rule.emergency else None
        yield _shown(target, rule, timers.get(rule.id), idle.get(rule.id), judged)


def _judged(notes: RuleNotes, rule: Rule) -> JudgedShown:
    found, running = standing_of(notes, rule), notes.episodes.get(rule.id)
    bets = found.bets
    return JudgedShown(
        verdict=found.verdict,
        suspended=found.suspended,
        words=found.words(),
        episodes=bets.n,
        delayed_episodes=bets.delayed.n,
        no_outcome=found.no_outcome,
        prompt=round(bets.prompt.mean, 4) if bets.prompt.n else None,
        delayed=round(bets.delayed.mean, 4) if bets.delayed.n else None,
        e_harmed=float(f"{bets.harmed:.4g}"),
        e_improved=float(f"{bets.improved:.4g}"),
        said_us=found.said_us,
        running=running is not None and running.digest == rule.digest,
    )


def _shown(
    target: str,
    rule: Rule,
    timer: RuleTimer | None,
    idle: str | None,
    judged: JudgedShown | None,
) -> RuleShown:
    fired_s = None if timer is None else timer.fired_s
    return RuleShown(
        target=target,
        id=rule.id,
        when=rule.when,
        for_=f"{rule.for_s:g}s",
        cooldown=f"{rule.cooldown_s:g}s",
        emergency=rule.emergency,
        propose=dict(rule.propose),
        digest=rule.digest,
        reads=list(rule.reads),
        not_applicable=idle,
        truth=None if timer is None else timer.truth,
        since_us=None if timer is None else round(timer.since_s * MICROS),
        fired_us=None if fired_s is None else round(fired_s * MICROS),
        quiet_until_us=None if fired_s is None else round((fired_s + rule.cooldown_s) * MICROS),
        judged=judged,
    )

"""Emergency rules judged by randomised delay: the coin at the trigger, the outcome at the horizon.

::

    rule fires ──► coin, p ──┬─ 1 − p: acts at once ─────┐
                             └─ p: acts ``delay_s`` later ┴─► attainment until ``horizon_s``
                                                                     │ one episode, one bet
                             HARMED: the rule only proposes from then ◄┤
                             IMPROVED: it is not delayed any more      ┘

The rule is judged, never the act: an act comes at the worst moment, and after that things get
better by themselves. No coin is tossed while an intent is far below its service level, near
memory's wall, within an episode of the same rule, or once a verdict has fallen; such acts are
prompt, and no episodes.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from controller.memory_wall import guard_wall
from controller.rule_notes import (
    NOTE,
    Episode,
    RuleNotes,
    RuleStanding,
    encoded,
    rule_notes,
    ruled,
    standing_of,
)
from controller.rules.firing import Rule
from controller.state import Draft, Seen
from policies.policy import Policy
from signals.events import MICROS

ATTAINMENT = ".attainment"
KV_USAGE = "target.kv_usage"


class Toss(Struct, frozen=True, kw_only=True):
    """How the coin fell. ``propensity``: of what it chose."""

    delayed: bool
    p: float
    delay_s: float

    @property
    def propensity(self) -> float:
        """How likely what it chose was."""
        return self.p if self.delayed else 1.0 - self.p

    def begins_us(self, now_us: int) -> int | None:
        """When it acts, if not now."""
        return now_us + round(self.delay_s * MICROS) if self.delayed else None

    def actions(self, act: str) -> tuple[str, str]:
        """What there was to choose from, in words."""
        return f"{act} now", f"{act} after {self.delay_s:g} s"

    def chosen(self, act: str) -> str:
        """What the coin chose."""
        return self.actions(act)[int(self.delayed)]


def judge_rules(draft: Draft, seen: Seen) -> None:
    """Take in episodes whose outcome is known, and say what follows."""
    notes = rule_notes(draft.noted)
    if not notes.episodes or not seen.episodes:
        return
    episodes, standing = dict(notes.episodes), dict(notes.standing)
    for rule_id, episode in notes.episodes.items():
        if episode.policy not in seen.episodes:
            continue
        del episodes[rule_id]
        rule = draft.declared.rules.get(rule_id)
        if rule is None or rule.digest != episode.digest:
            continue
        found = _after(draft, standing_of(notes, rule), episode, seen.episodes[episode.policy])
        standing[rule_id] = found
        _tell(draft, rule, episode, standing_of(notes, rule), found, seen)
    known = {rule.id for rule in draft.declared.rules.rules}
    kept = {name: one for name, one in standing.items() if name in known}
    draft.noted[NOTE] = encoded(RuleNotes(episodes=episodes, standing=kept))


def toss(draft: Draft, seen: Seen, rule_id: str) -> Toss | None:
    """The coin of a trigger; None: there is none, and it acts at once."""
    limits, rule = draft.declared.emergencies, draft.declared.rules.get(rule_id)
    notes = rule_notes(draft.noted)
    if rule is None or limits.delayed_share <= 0 or rule_id in notes.episodes:
        return None
    if standing_of(notes, rule).verdict is not None or not _bearable(draft, seen):
        return None
    p = limits.delayed_share
    return Toss(delayed=draft.rng.random() < p, p=p, delay_s=limits.delay_s)


def begin_episode(draft: Draft, policy: Policy, tossed: Toss) -> None:
    """Note the trigger, before anybody can know how it ends."""
    notes, limits = rule_notes(draft.noted), draft.declared.emergencies
    episode = Episode(
        policy=policy.id,
        digest=policy.origin.version,
        delayed=tossed.delayed,
        p=tossed.p,
        from_us=draft.now_us,
        to_us=draft.now_us + round(limits.horizon_s * MICROS),
    )
    episodes = {**notes.episodes, policy.origin.name: episode}
    draft.noted[NOTE] = encoded(msgspec.structs.replace(notes, episodes=episodes))


def only_proposes(draft: Draft, rule: Rule) -> bool:
    """Whether the rule's emergency is suspended: it did harm as it reads now."""
    return standing_of(rule_notes(draft.noted), rule).suspended


def _bearable(draft: Draft, seen: Seen) -> bool:
    """Whether things are known, and not so bad that nobody should wait."""
    limits = draft.declared.emergencies
    attained = [value for name, value in seen.features.items() if name.endswith(ATTAINMENT)]
    if not attained or min(attained) < limits.least_attainment:
        return False
    if seen.features.get(KV_USAGE, 0.0) >= limits.most_kv_usage:
        return False
    wall = guard_wall(draft.noted, now_us=draft.now_us, model=draft.declared.plant)
    now = None if wall is None or seen.observed is None else seen.observed.setting(wall.knob)
    return wall is None or now is None or now.value * wall.each_bytes <= wall.allowed_bytes


def _after(
    draft: Draft, before: RuleStanding, episode: Episode, outcome: float | None
) -> RuleStanding:
    if outcome is None:
        return msgspec.structs.replace(before, no_outcome=before.no_outcome + 1)
    limits = draft.declared.emergencies
    bets = before.bets.after(
        outcome=outcome, delayed=episode.delayed, p=episode.p, scale=limits.scale
    )
    return ruled(msgspec.structs.replace(before, bets=bets), limits, now_us=draft.now_us)


def _tell(
    draft: Draft,
    rule: Rule,
    episode: Episode,
    before: RuleStanding,
    after: RuleStanding,
    seen: Seen,
) -> None:
    draft.note(
        "rule.episode",
        rule.id,
        policy=episode.policy,
        delayed=episode.delayed,
        p=episode.p,
        outcome=seen.episodes[episode.policy],
        e_harmed=after.bets.harmed,
        e_improved=after.bets.improved,
    )
    if after.verdict is None or before.verdict is not None:
        return
    draft.note(
        "rule.verdict",
        rule.id,
        verdict=after.verdict,
        words=after.words(),
        digest=rule.digest,
        e_harmed=after.bets.harmed,
        e_improved=after.bets.improved,
        suspended=after.suspended,
    )

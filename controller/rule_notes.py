"""What the loop notes of emergency rules: the episodes that run, and how each rule stands. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, Literal

import msgspec
from msgspec import Struct

from controller.config.emergencies import EmergencySettings
from controller.judge.assignment_bets import Bets
from controller.rules.firing import Rule

NOTE: Final = "rules"

RuleVerdict = Literal["IMPROVED", "HARMED", "INCONCLUSIVE"]


class Episode(Struct, frozen=True, kw_only=True):
    """One trigger of a rule, from then to its horizon. ``p``: how likely it was to be delayed."""

    policy: str
    digest: str
    delayed: bool
    p: float
    from_us: int
    to_us: int


class RuleStanding(Struct, frozen=True, kw_only=True):
    """A rule's verdict so far, as it reads now (``digest``). ``verdict`` None: not yet.

    ``no_outcome``: episodes in which no request ended. ``said_us``: when the verdict fell.
    """

    digest: str
    bets: Bets = Bets()
    no_outcome: int = 0
    verdict: RuleVerdict | None = None
    said_us: int | None = None

    @property
    def suspended(self) -> bool:
        """Whether it only proposes: it was found to do harm."""
        return self.verdict == "HARMED"

    def words(self) -> str:
        """In a line."""
        bets = self.bets
        arms = (("prompt", bets.prompt), ("delayed", bets.delayed))
        means = [f"{one.mean:.3f} in {one.n} {arm} ones" for arm, one in arms if one.n]
        told = f"{bets.n} episodes: attainment {', '.join(means)}" if means else "no episode yet"
        return told if self.verdict is None else f"{self.verdict} after {told}"


class RuleNotes(Struct, frozen=True, kw_only=True):
    """By rule id."""

    episodes: dict[str, Episode] = {}
    standing: dict[str, RuleStanding] = {}


def rule_notes(noted: Mapping[str, str]) -> RuleNotes:
    """What was noted; nothing where nothing was."""
    return _decoded(noted.get(NOTE, "{}"))


@lru_cache(maxsize=64)
def _decoded(text: str) -> RuleNotes:
    return msgspec.json.decode(text, type=RuleNotes)


def encoded(notes: RuleNotes) -> str:
    """As it is kept."""
    return msgspec.json.encode(notes, order="sorted").decode()


def standing_of(notes: RuleNotes, rule: Rule) -> RuleStanding:
    """How a rule stands as it reads now: one that reads otherwise begins anew."""
    known = notes.standing.get(rule.id)
    return known if known is not None and known.digest == rule.digest else _new(rule)


def _new(rule: Rule) -> RuleStanding:
    return RuleStanding(digest=rule.digest)


def ruled(standing: RuleStanding, limits: EmergencySettings, *, now_us: int) -> RuleStanding:
    """With the verdict that its episodes give, if they give one. A verdict stays."""
    bets = standing.bets
    if standing.verdict is not None or bets.n < limits.min_episodes:
        return standing
    enough = 1.0 / limits.alpha
    verdict: RuleVerdict | None = None
    if bets.harmed >= enough and bets.delayed.mean > bets.prompt.mean:
        verdict = "HARMED"
    elif bets.improved >= enough and bets.prompt.mean > bets.delayed.mean:
        verdict = "IMPROVED"
    elif bets.n >= limits.max_episodes:
        verdict = "INCONCLUSIVE"
    if verdict is None:
        return standing
    return msgspec.structs.replace(standing, verdict=verdict, said_us=now_us)

"""Stored draws made again from what the learner knew then: the same to the bit, or said why not.

Of a decision only its choice is read, never what became of it, so nothing that came later can help.
What can't be drawn again (its learner's state is forgotten, or another version of the algorithm
made it) is counted apart: it proves nothing either way.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from typing import Literal

from msgspec import Struct

from controller.learner.registry import ALGORITHMS, AnyLearner, loaded
from controller.learner.replay import difference
from controller.store.port import Drawn
from signals.errors import Broken

Outcome = Literal["same", "differs", "forgotten", "other_version", "no_draw"]
States = Callable[[str, str], str | None]
"""(target, digest) -> what was kept of the learner under that digest."""


class Replayed(Struct, frozen=True, kw_only=True):
    """What became of drawing one decision again. ``words``: why it differs, or can't be drawn."""

    id: str
    target: str
    at_us: int
    source: str
    outcome: Outcome
    chosen: str = ""
    propensity: float | None = None
    words: str = ""


class Replay(Struct, frozen=True, kw_only=True):
    """All of them, newest first, and how many of each outcome."""

    counts: dict[Outcome, int]
    decisions: tuple[Replayed, ...]

    @property
    def agrees(self) -> bool:
        """Whether nothing that could be drawn again came out otherwise."""
        return self.counts["differs"] == 0


def replayed(decisions: Iterable[Drawn], states: States) -> Replay:
    """Draw each of them again."""
    found = tuple(replay_one(one, states) for one in decisions)
    outcomes: tuple[Outcome, ...] = ("same", "differs", "forgotten", "other_version", "no_draw")
    counts = {outcome: sum(one.outcome == outcome for one in found) for outcome in outcomes}
    return Replay(counts=counts, decisions=found)


def replay_one(decision: Drawn, states: States) -> Replayed:
    """Draw one of them again."""
    outcome, words = _outcome(decision, states)
    choice = decision.choice
    return Replayed(
        id=decision.id,
        target=decision.target,
        at_us=decision.at_us,
        source=decision.source,
        outcome=outcome,
        chosen="" if choice is None else choice.action.words(),
        propensity=None if choice is None else choice.propensity,
        words=words,
    )


def _outcome(decision: Drawn, states: States) -> tuple[Outcome, str]:
    choice = decision.choice
    if choice is None:
        return "no_draw", "nothing was drawn: one thing alone was wanted, or could be chosen"
    here = {one.model for one in ALGORITHMS.values()}
    if choice.model not in here:
        return "other_version", f"{choice.model} made it; here are {', '.join(sorted(here))}"
    body = states(decision.target, choice.state)
    if body is None:
        return "forgotten", f"the learner's state {choice.state} is not kept any more"
    learner = _learner(body)
    if isinstance(learner, str):
        return "differs", learner
    words = difference(choice, learner)
    return ("differs" if words else "same"), words


def _learner(body: str) -> AnyLearner | str:
    """The learner, or what is wrong with what was kept of it."""
    try:
        return loaded(base64.b64decode(body, validate=True))
    except (binascii.Error, Broken) as error:
        return f"the learner's state can't be read: {error}"

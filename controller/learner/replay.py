"""Replay: a stored choice, drawn again from what was known, must come out the same to the bit.

What is stored is the choice (context, menu with mask, state digest, seed, time) and, beside it, the
saved learner that the digest names. No outcome is needed, so none can leak into it.

>>> from controller.learner.port import Action, Arm, Context, Menu
>>> from controller.learner.registry import ALGORITHMS
>>> from policies.settings import Setting
>>> two = tuple(Action.of(Arm.on((4, 8), "cap", Setting(value=cap))) for cap in (4, 8))
>>> menu = Menu(actions=two, mask=(True, True), baseline=0, current=0)
>>> learner = ALGORITHMS["linear_thompson"]
>>> choice = learner.choose(Context(), menu, seed=7, at_us=0)
>>> difference(read(written(choice)), learner)
''
"""

from __future__ import annotations

import msgspec

from controller.learner.choosing import state_of
from controller.learner.port import Choice, Learner
from signals.errors import Broken


def written(choice: Choice) -> bytes:
    """A choice as it is stored: equal choices, equal bytes."""
    return msgspec.json.encode(choice, order="sorted")


def read(body: bytes) -> Choice:
    """A stored choice. Raises ``Broken`` when it is none."""
    try:
        return msgspec.json.decode(body, type=Choice)
    except msgspec.DecodeError as error:
        raise Broken(f"a stored choice can't be read: {error}") from error


def difference(choice: Choice, learner: Learner) -> str:
    """ "" when the choice comes out again bit for bit, else what does not, in words."""
    if learner.model != choice.model:
        return f"it was made by {choice.model}, this is {learner.model}"
    if state_of(learner) != choice.state:
        return f"it was made from state {choice.state}, this is {state_of(learner)}"
    again = learner.choose(choice.context, choice.menu, seed=choice.seed, at_us=choice.at_us)
    if written(again) == written(choice):
        return ""
    if again.index != choice.index:
        return f"chose {choice.action.words()}, now {again.action.words()}"
    return "the propensities differ"

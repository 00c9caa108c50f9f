"""The learner's words: arm, action, context, menu, choice; and what every algorithm can do.

An *arm* is one place's setting and where it lies on that place's ladder. An *action* is the arms
that move together, as one vector. A *menu* is the actions of one decision with those that may be
chosen; its baseline and the one in force always may. A *choice* is an action drawn from exactly
known probabilities, with all that is needed to draw it again.

>>> ladder = (4, 8, 16)
>>> eight = Arm.on(ladder, "active_cap", Setting(value=8))
>>> eight.positions, Action.of(eight).words()
((1,), 'active_cap=8')
>>> Context.of({"live.waiting": 3.0})
Traceback (most recent call last):
...
signals.errors.Rejected: live.waiting is not exogenous: the engine's own settings change it
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from typing import Final, Protocol, Self, TypeVar

import msgspec
from msgspec import Struct

from policies.settings import Setting, typed
from policies.steps import values_of
from signals.errors import Rejected

Record = TypeVar("Record", bound=Struct)

MAX_ARMS: Final = 64
MAX_ACTIONS: Final = 1024
MAX_CONTEXT: Final = 16
MAX_REWARD: Final = 1000.0
MAX_WEIGHT: Final = 1000.0
ENDOGENOUS: Final = re.compile(
    r"(^|\.)(attainment|error_rate|waiting|running|kv_\w+|reward_\w+|tokens_per_s|preemptions\w*"
    r"|(ttft|tpot|e2e|itl)_\w+)$"
)
"""What the engine's settings change, so a learner that conditions on it chases its own tail."""


class Arm(Struct, frozen=True, kw_only=True):
    """One place's setting and the rising ladder that every value of it is on."""

    place: str
    setting: Setting
    ladder: tuple[int, ...]

    def __post_init__(self) -> None:
        values = values_of(self.setting)
        if not values or any(value not in self.ladder for value in values):
            raise Rejected(
                f"{self.place} has a value off its ladder",
                field=self.place,
                value=values,
                allowed=self.ladder,
            )

    @classmethod
    def on(cls, ladder: Sequence[int], place: str, setting: Setting) -> Self:
        """The arm of a setting. Raises ``Rejected`` when a value is not on the ladder."""
        return cls(place=place, setting=setting, ladder=tuple(ladder))

    @property
    def values(self) -> tuple[int, ...]:
        """Every value it can put the knob to, a law's default first."""
        return values_of(self.setting)

    @property
    def positions(self) -> tuple[int, ...]:
        """Where its values are on the ladder, 0 the lowest."""
        return tuple(self.ladder.index(value) for value in self.values)

    @property
    def size(self) -> int:
        """How many values the ladder has."""
        return len(self.ladder)


class Action(Struct, frozen=True, kw_only=True):
    """Arms that are put into force together. ``id`` is the digest of what they set.

    ``expected``: the reward that the plant model predicts; learners learn what it misses by.
    """

    id: str
    arms: tuple[Arm, ...]
    expected: float = 0.0

    @classmethod
    def of(cls, *arms: Arm, expected: float = 0.0) -> Self:
        """The action of at most one arm a place. Raises ``Rejected``."""
        places = sorted({arm.place for arm in arms})
        if len(places) != len(arms) or not 1 <= len(arms) <= MAX_ARMS:
            raise Rejected(
                "an action has one arm a place",
                field="arms",
                value=[arm.place for arm in arms],
                allowed=f"1..{MAX_ARMS} different places",
            )
        check_number("expected", expected, MAX_REWARD)
        ordered = tuple(sorted(arms, key=lambda arm: arm.place))
        return cls(id=digest(*ordered), arms=ordered, expected=expected)

    def __hash__(self) -> int:
        return hash(self.id)

    def arm(self, place: str) -> Arm | None:
        """What it does to a place, if anything."""
        return next((arm for arm in self.arms if arm.place == place), None)

    def words(self) -> str:
        """``active_cap=8, step_token_budget=256``."""
        return ", ".join(f"{arm.place}={arm.setting.words()}" for arm in self.arms)


class Context(Struct, frozen=True, kw_only=True):
    """What arrives from outside when a decision is made: finite figures by name, in name order."""

    features: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        names = [name for name, _ in self.features]
        if names != sorted(set(names)) or len(names) > MAX_CONTEXT:
            raise Rejected(
                "features of a context are in name order, each once",
                field="context",
                value=names,
                allowed=f"at most {MAX_CONTEXT}",
            )
        for name, value in self.features:
            check_number(name, value, math.inf)
            if ENDOGENOUS.search(name):
                raise Rejected(
                    f"{name} is not exogenous: the engine's own settings change it",
                    field=name,
                    allowed="arrivals, offered tokens, lengths, time",
                )

    @classmethod
    def of(cls, features: Mapping[str, float]) -> Self:
        """From a mapping in any order. Raises ``Rejected`` naming a feature that may not be."""
        return cls(features=tuple(sorted((name, float(x)) for name, x in features.items())))


class Menu(Struct, frozen=True, kw_only=True):
    """The actions of one decision. ``mask``: which may be chosen. ``why``: by id, why not.

    ``baseline`` and ``current`` are indexes; both are always allowed.
    """

    actions: tuple[Action, ...]
    mask: tuple[bool, ...]
    baseline: int
    current: int
    why: dict[str, str] = {}

    def __post_init__(self) -> None:
        ids = {action.id for action in self.actions}
        if not 1 <= len(self.actions) <= MAX_ACTIONS or len(ids) != len(self.actions):
            raise Rejected(
                "a menu has different actions",
                field="actions",
                value=len(self.actions),
                allowed=f"1..{MAX_ACTIONS}",
            )
        if len(self.mask) != len(self.actions):
            raise Rejected("one mask bit an action", field="mask", value=len(self.mask))
        for name, index in (("baseline", self.baseline), ("current", self.current)):
            if not 0 <= index < len(self.actions) or not self.mask[index]:
                raise Rejected(f"the {name} is always allowed", field=name, value=index)

    @property
    def allowed(self) -> tuple[int, ...]:
        """Indexes of the actions that may be chosen, in order."""
        return tuple([index for index, may in enumerate(self.mask) if may])

    def index(self, action_id: str) -> int | None:
        """Where an action is, if it may be chosen."""
        for index, action in enumerate(self.actions):
            if action.id == action_id:
                return index if self.mask[index] else None
        return None


class Choice(Struct, frozen=True, kw_only=True):
    """One decision, complete: what was chosen, from what, with which probabilities, by whom.

    ``propensities``: one for each action of the menu, 0 where masked; they sum to 1, and the action
    was drawn from exactly these. ``model`` is the algorithm's name and version, ``state`` the
    digest of what it knew.
    """

    index: int
    propensities: tuple[float, ...]
    context: Context
    menu: Menu
    model: str
    state: str
    seed: int
    at_us: int

    @property
    def action(self) -> Action:
        """What was chosen."""
        return self.menu.actions[self.index]

    @property
    def propensity(self) -> float:
        """Of what was chosen."""
        return self.propensities[self.index]


class Learner(Protocol):
    """What every registered algorithm is: a frozen, serialisable value.

    ``half_life_s``: what it learned so long ago counts half; None: it keeps no sums to forget.
    """

    @property
    def model(self) -> str:
        """Name and version; the version rises when equal input would give another choice."""

    @property
    def half_life_s(self) -> float | None:
        """How fast it forgets."""

    def choose(self, context: Context, menu: Menu, *, seed: int, at_us: int) -> Choice:
        """Draw an allowed action. Pure: the same arguments and state give the same choice."""

    def learn_one(
        self,
        context: Context,
        action: Action,
        reward: float,
        *,
        at_us: int,
        decided_us: int,
        weight: float = 1.0,
    ) -> Self:
        """The learner that also knows this outcome of a decision made at ``decided_us``.

        A late reward counts by its decision's age. Raises ``Rejected`` for what is not finite.
        """

    def evidence(self, *, at_us: int) -> float:
        """The weight of what it has learned and not forgotten; 0 for what keeps no sums."""


def state_digest(learner: Struct) -> str:
    """16 hex digits of all that an algorithm knows and is set to."""
    return hashlib.sha256(msgspec.msgpack.encode(learner)).hexdigest()[:16]


def check_number(field: str, value: float, most: float) -> None:
    """Raise ``Rejected`` unless it is finite and at most ``most`` in size."""
    if not math.isfinite(value) or abs(value) > most:
        raise Rejected(
            f"{field} is not a usable number",
            field=field,
            value=str(value),
            allowed="finite" if math.isinf(most) else f"-{most:g}..{most:g}",
        )


def check_outcome(reward: float, weight: float, *, at_us: int, decided_us: int) -> None:
    """Raise ``Rejected`` for an outcome that nothing can be learned from."""
    check_number("reward", reward, MAX_REWARD)
    check_number("weight", weight, MAX_WEIGHT)
    if weight <= 0:
        raise Rejected("weight is not positive", field="weight", value=weight, allowed="> 0")
    if decided_us > at_us:
        raise Rejected(
            "decided after it was learned", field="decided_us", value=decided_us, allowed=at_us
        )


def digest(*records: Record) -> str:
    """16 hex digits of records: equal records, equal digest, in any process."""
    plain = [msgspec.to_builtins(typed(record)) for record in records]
    return hashlib.sha256(msgspec.json.encode(plain, order="sorted")).hexdigest()[:16]

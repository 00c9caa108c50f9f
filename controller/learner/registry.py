"""Every algorithm by name, and how one is saved and loaded.

>>> [learner.model for learner in (loaded(saved(one)) for one in ALGORITHMS.values())][:2]
['linear_thompson:2', 'linucb:1']
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from controller.learner.aimd import Aimd
from controller.learner.formula_only import FormulaOnly
from controller.learner.gradient_limiter import GradientLimiter
from controller.learner.linear_thompson import LinearThompson
from controller.learner.linucb import LinUcb
from controller.learner.random_search import RandomSearch
from controller.learner.ridge import Ridge
from controller.learner.settings import LearnerSettings
from controller.learner.static import Static
from controller.learner.timetable_oracle import TimetableOracle
from signals.errors import Broken, Rejected

AnyLearner = (
    LinearThompson
    | LinUcb
    | Static
    | RandomSearch
    | Aimd
    | GradientLimiter
    | FormulaOnly
    | TimetableOracle
)

ALGORITHMS: Final[Mapping[str, AnyLearner]] = {
    "linear_thompson": LinearThompson(),
    "linucb": LinUcb(),
    "static": Static(),
    "random_search": RandomSearch(),
    "aimd": Aimd(),
    "gradient_limiter": GradientLimiter(),
    "formula_only": FormulaOnly(),
    "timetable_oracle": TimetableOracle(),
}
"""As they are before they have learned anything."""


def saved(learner: AnyLearner) -> bytes:
    """The whole of it, knowledge and settings."""
    return msgspec.msgpack.encode(learner)


def loaded(body: bytes) -> AnyLearner:
    """What was saved, equal to the bit. Raises ``Broken`` for anything else."""
    try:
        return msgspec.msgpack.decode(body, type=AnyLearner)
    except msgspec.DecodeError as error:
        raise Broken(f"a saved learner can't be read: {error}") from error


def begun(settings: LearnerSettings, place: str, position: float) -> AnyLearner:
    """The algorithm that is set, of one place, with nothing learned; ``position``: where it stands.

    Raises ``Rejected`` when none is set.
    """
    match settings.algorithm:
        case "linear_thompson":
            return LinearThompson.of(settings)
        case "linucb":
            return LinUcb(sums=Ridge.of(settings), uniform=settings.uniform_share)
        case "random_search":
            return RandomSearch(memory_s=settings.half_life_s)
        case "aimd":
            return Aimd(place=place, wanted=position)
        case "gradient_limiter":
            return GradientLimiter(place=place, limit=position + 1.0)
        case "formula_only":
            return FormulaOnly(place=place)
        case "off":
            raise Rejected("no learner is set", field="learner.algorithm", value="off")


def weighed(learner: AnyLearner, share: float) -> AnyLearner:
    """A learner for whom what it learned so far counts only so much; as it is without sums."""
    if not isinstance(learner, LinearThompson | LinUcb):
        return learner
    return msgspec.structs.replace(learner, sums=learner.sums.weighed(share))


def sums_of(learner: AnyLearner) -> Ridge | None:
    """What a bandit knows; None for what keeps no sums."""
    return learner.sums if isinstance(learner, LinearThompson | LinUcb) else None

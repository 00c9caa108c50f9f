"""Every algorithm by name, and how one is saved and loaded.

>>> [learner.model for learner in (loaded(saved(one)) for one in ALGORITHMS.values())][:2]
['linear_thompson:1', 'linucb:1']
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
from controller.learner.static import Static
from controller.learner.timetable_oracle import TimetableOracle
from signals.errors import Broken

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

"""What the learner keeps of one target through a crash: one JSON text among the loop's notes.

It is written at decisions and at the ends of units, never in between.
"""

from __future__ import annotations

import base64
import math
from functools import lru_cache
from typing import Final, Self

import msgspec
from msgspec import Struct

from controller.learner.credit import Entry, Ledger
from controller.learner.registry import AnyLearner, begun, loaded, saved
from controller.learner.settings import LearnerSettings
from controller.plant.residual import Measured
from controller.state import Draft
from policies.limits import MICROS
from policies.settings import Setting
from signals.errors import Broken

NOTE: Final = "learner"
MEMORY: Final = 12
"""Samples that a level is a mean of: an hour of the usual decisions."""
LEAST_SAMPLES: Final = 3
LEAST_SD: Final = 0.02
REMEMBERED: Final = 256
"""Settings of which gains and trials are remembered: the latest."""


class Expectation(Struct, frozen=True, kw_only=True):
    """What the plant model expected of a trial's two arms when it began."""

    trial: str
    baseline: float
    candidate: float


class Level(Struct, frozen=True, kw_only=True):
    """The utility of what is in force, from samples between trials; older ones fade."""

    samples: int = 0
    mean: float = 0.0
    variance: float = 0.0

    def seen(self, utility: float) -> Self:
        """With one sample more: a running mean and variance, at last over some ``MEMORY``."""
        share = 1.0 / min(self.samples + 1, MEMORY)
        off = utility - self.mean
        return type(self)(
            samples=self.samples + 1,
            mean=self.mean + share * off,
            variance=(1 - share) * (self.variance + share * off * off),
        )

    def bounds(self, deviations: float) -> tuple[float, float] | None:
        """Least and most within so many deviations; None while too few samples were seen."""
        if self.samples < LEAST_SAMPLES:
            return None
        reach = deviations * math.sqrt(max(self.variance, LEAST_SD**2))
        return max(0.0, self.mean - reach), min(1.0, self.mean + reach)


class Gained(Struct, frozen=True, kw_only=True):
    """What a setting is known to earn over the declared baseline: least and most, as trials said.

    Where one was kept upon another, their intervals add up. ``at_us``: when the oldest of those
    trials began: what they found is of the engine as it was from then on.
    """

    low: float = 0.0
    high: float = 0.0
    at_us: int = 0


class Notes(Struct, frozen=True, kw_only=True):
    """``learners``: by place, base64 of what ``registry.saved`` gives. ``entries``: the ledger's.

    ``earned_us``: up to when idle time is in the ledger. ``decided_us``: by place. ``gains``: by
    action in words, what it earns over the declared baseline.
    ``judged``: likewise, when it was learned of last. ``measured``: by place. ``explained``: by
    place, a digest of why nothing was worth drawing. ``level``: of what is in force.
    ``doubt_us``: the engine has changed since; what was judged before is in doubt. ``fingerprint``:
    of the engine that was seen last. ``behind``: by place in doubt, how much less than the declared
    baseline what is in force was expected to earn at the last look.
    """

    learners: dict[str, str] = {}
    entries: tuple[Entry, ...] = ()
    earned_us: int = 0
    decided_us: dict[str, int] = {}
    gains: dict[str, Gained] = {}
    judged: dict[str, int] = {}
    measured: dict[str, tuple[Measured, ...]] = {}
    expected: Expectation | None = None
    level: Level = Level()
    explained: dict[str, str] = {}
    doubt_us: int = 0
    fingerprint: str = ""
    behind: dict[str, float] = {}

    def ledger(self, settings: LearnerSettings) -> Ledger:
        """The safety budget."""
        return msgspec.structs.replace(Ledger.of(settings), entries=self.entries)

    def learner(self, settings: LearnerSettings, place: str, *, position: float) -> AnyLearner:
        """Of a place; begun anew where there is none, or it was of another algorithm or make.

        Also where another version wrote it: what was learned is not worth stopping the loop for.
        """
        fresh = begun(settings, place, position)
        body = self.learners.get(place)
        if body is None:
            return fresh
        try:
            known = loaded(base64.b64decode(body))
        except Broken:
            return fresh
        return fresh if make(known) != make(fresh) else known

    def with_learner(self, place: str, learner: AnyLearner) -> Self:
        """These, with what it knows of a place now."""
        return msgspec.structs.replace(self, learners=self.learners | {place: text(learner)})


def text(learner: AnyLearner) -> str:
    """A learner as it is stored."""
    return base64.b64encode(saved(learner)).decode()


def judged_lately(draft: Draft, at: str, setting: Setting) -> bool:
    """Whether trials taught of a setting of a place within the learner's own memory."""
    settings = draft.declared.learner
    if settings.algorithm == "off":
        return False
    at_us = noted(draft).judged.get(f"{at}={setting.words()}")
    return at_us is not None and draft.now_us - at_us < settings.half_life_s * MICROS


def noted(draft: Draft) -> Notes:
    """What was noted last; nothing yet at the first start, or after another version's notes."""
    body = draft.noted.get(NOTE)
    return Notes() if body is None else _read(body)


def note(draft: Draft, notes: Notes) -> None:
    """Keep these from now on."""
    draft.noted[NOTE] = msgspec.json.encode(notes, order="sorted").decode()


def make(learner: AnyLearner) -> tuple[object, ...]:
    """What an algorithm is set to, apart from what it has learned."""
    learned = {"sums", "seen", "outcomes", "wanted", "limit", "long", "curve"}
    own = tuple(
        (name, value)
        for name, value in msgspec.structs.asdict(learner).items()
        if name not in learned and name not in ("tpot_ms", "prefill_per_decode")
    )
    sums = getattr(learner, "sums", None)
    kept = ("half_life_s", "noise_sd", "prior_sd", "max_features")
    return (learner.model, own, *(getattr(sums, name, None) for name in kept))


def latest(found: dict[str, int], *, most: int = REMEMBERED) -> dict[str, int]:
    """The newest of them."""
    return dict(sorted(found.items(), key=lambda one: (-one[1], one[0]))[:most])


@lru_cache(maxsize=16)
def _read(body: str) -> Notes:
    try:
        return msgspec.json.decode(body, type=Notes)
    except msgspec.DecodeError:
        return Notes()

"""What the learner keeps of one target through a crash: one JSON text among the loop's notes.

It is written at decisions and at the ends of units, never in between.
"""

from __future__ import annotations

import base64
from functools import lru_cache
from typing import Final, Self

import msgspec
from msgspec import Struct

from controller.learner.credit import Entry, Ledger
from controller.learner.registry import AnyLearner, begun, loaded, saved
from controller.learner.settings import LearnerSettings
from controller.plant.residual import Measured
from controller.state import Draft

NOTE: Final = "learner"
REMEMBERED: Final = 256
"""Settings of which gains and trials are remembered: the latest."""


class Expectation(Struct, frozen=True, kw_only=True):
    """What the plant model expected of a trial's two arms when it began."""

    trial: str
    baseline: float
    candidate: float


class Notes(Struct, frozen=True, kw_only=True):
    """``learners``: by place, base64 of what ``registry.saved`` gives. ``entries``: the ledger's.

    ``earned_us``: up to when idle time is in the ledger. ``decided_us``: by place. ``gains``: by
    action, the least that it earns over the declared baseline, as trials found. ``judged``: by
    action, when it was learned of last. ``measured``: by place. ``explained``: by place, a digest
    of why nothing was worth drawing.
    """

    learners: dict[str, str] = {}
    entries: tuple[Entry, ...] = ()
    earned_us: int = 0
    decided_us: dict[str, int] = {}
    gains: dict[str, float] = {}
    judged: dict[str, int] = {}
    measured: dict[str, tuple[Measured, ...]] = {}
    expected: Expectation | None = None
    explained: dict[str, str] = {}

    def ledger(self, settings: LearnerSettings) -> Ledger:
        """The safety budget."""
        return msgspec.structs.replace(Ledger.of(settings), entries=self.entries)

    def learner(self, settings: LearnerSettings, place: str, *, position: float) -> AnyLearner:
        """Of a place; begun anew where there is none, or it was of another algorithm or make."""
        fresh = begun(settings, place, position)
        body = self.learners.get(place)
        known = None if body is None else loaded(base64.b64decode(body))
        return fresh if known is None or make(known) != make(fresh) else known

    def with_learner(self, place: str, learner: AnyLearner) -> Self:
        """These, with what it knows of a place now."""
        return msgspec.structs.replace(self, learners=self.learners | {place: text(learner)})


def text(learner: AnyLearner) -> str:
    """A learner as it is stored."""
    return base64.b64encode(saved(learner)).decode()


def noted(draft: Draft) -> Notes:
    """What was noted last; nothing yet at the first start."""
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
    return msgspec.json.decode(body, type=Notes)

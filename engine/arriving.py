"""What an arriving request gets: the stamp that it belongs to for ever, and settings of its own.

::

    knob that is per request:   candidate@intent ► @intent ► candidate ► whole engine
                                └─ of a session in the candidate's arm ─┘

A setting at the request's intent is over one of the whole engine; at one scope what a session of
the candidate's arm has instead is over what all have. One value that is made when something
changes, so that a request costs a hash and two look-ups.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from engine.settings_in_force import InForce, digest
from policies.runtime_config import SessionSplit, Stamp, TrialStamp
from policies.session_split import arm_of
from policies.settings import place


class Arm(Struct, frozen=True):
    """One arm's stamp, and what its requests get, by place."""

    stamp: Stamp
    settings: Mapping[str, int]

    def value(self, knob: str, intent: str) -> int | None:
        """A knob's value for a request of an intent; None: this engine has no such knob."""
        own = self.settings.get(place(knob, intent))
        return self.settings.get(knob) if own is None else own


class Arriving(Struct, frozen=True):
    """See the module. ``candidate`` counts while ``split`` is there."""

    baseline: Arm
    candidate: Arm
    split: SessionSplit | None = None

    def of(self, session: str) -> Arm:
        """What a request of a session gets; one without a session stands for itself."""
        if self.split is None or arm_of(self.split, session) == "baseline":
            return self.baseline
        return self.candidate


def arriving(
    plain: Stamp,
    in_force: Mapping[str, InForce],
    candidate: Mapping[str, InForce],
    trial: TrialStamp | None,
) -> Arriving:
    """From what all have, and what the candidate's sessions have over it. ``plain``: the engine's
    own stamp, which outside a split is everybody's."""
    if trial is None or trial.split is None:
        only = _arm(plain, in_force)
        return Arriving(only, only)
    theirs, block = {**in_force, **candidate}, TrialStamp(id=trial.id, block=trial.block)
    return Arriving(
        _arm(stamp_of(plain, in_force, replace(block, arm="baseline")), in_force),
        _arm(stamp_of(plain, theirs, replace(block, arm="candidate")), theirs),
        trial.split,
    )


def stamp_of(plain: Stamp, settings: Mapping[str, InForce], trial: TrialStamp | None) -> Stamp:
    """The stamp of requests with these settings, of the engine and the version of ``plain``."""
    policies = (one.policy_id for one in settings.values() if one.policy_id is not None)
    return replace(
        plain,
        digest=digest({at: one.law or one.value for at, one in settings.items()}),
        trial=trial,
        policies=tuple(dict.fromkeys(policies)),
    )


def _arm(stamp: Stamp, settings: Mapping[str, InForce]) -> Arm:
    return Arm(stamp, {at: one.observed for at, one in settings.items()})

"""What an engine really had, from when until when: the past as read back, never as wished.

::

    read-backs and change log of the engine        segments of one replica
    ──────────────────────────────────────►  ┌────────┬──────────┬─ ─ ─ ─ ─ ┬───────────►
                                             │ v 3    │ v 4      │ unknown  │ v 0 (new
                                             │        │ trial C  │ t1 – t2  │ incarnation)
                                             └────────┴──────────┴─ ─ ─ ─ ─ ┴───────────►

A segment ends where the next begins. Where the engine's change log has a hole (it forgot lines that
were never read, or it was restarted while nobody looked) the segment between is ``known`` False:
nobody can say what was in force, and nobody pretends to.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from policies.laws import Law
from policies.runtime_config import Arm, TrialStamp


class InForce(Struct, frozen=True, kw_only=True):
    """One place's setting in a segment. ``value`` under a law: at the segment's beginning."""

    value: int
    law: Law | None = None
    policy_id: str | None = None


class Segment(Struct, frozen=True, kw_only=True):
    """One replica's settings from ``from_us`` until the next segment's ``from_us`` (engine time).

    ``entry``: index of the audit entry ``settings.observed`` that holds the same; None before it is
    stored. ``settings`` by place; empty where ``known`` is False. ``candidate``: by place, what
    the candidate's sessions had instead. ``until_us`` None: still so. ``cause`` and ``change_id``:
    of the change that began it.
    """

    target: str
    replica: str
    from_us: int
    until_us: int | None = None
    known: bool = True
    incarnation: str = ""
    version: int = 0
    digest: str = ""
    cause: str = ""
    change_id: str | None = None
    hold: bool = False
    trial: TrialStamp | None = None
    settings: dict[str, InForce] = {}
    candidate: dict[str, InForce] = {}
    entry: int | None = None

    def met_by(self, arm: Arm | None, digest: str) -> Segment:
        """As a request met it whose stamp names an arm and a digest.

        One of the candidate's sessions had what they have, over what all had.
        """
        if arm != "candidate" or not self.candidate:
            return self
        return replace(self, settings={**self.settings, **self.candidate}, digest=digest)

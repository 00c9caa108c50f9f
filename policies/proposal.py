"""A proposal: a change that a rule, the plant model or a person would like, not yet a policy."""

from __future__ import annotations

from msgspec import Struct

from policies.knobs import TARGET_SCOPE
from policies.policy import Effect, Guard, Origin
from policies.settings import Setting, place


class Proposal(Struct, frozen=True, kw_only=True):
    """One knob of one target, from ``before`` to ``setting``.

    ``reason`` is made from the evidence and carries its figures. ``evidence``: name -> figure.
    ``review``: what the place has was kept on an engine that has changed since.
    ``primary``: as in ``Policy``.
    """

    target: str
    knob: str
    scope: str = TARGET_SCOPE
    setting: Setting
    before: Setting
    origin: Origin
    reason: str
    evidence: dict[str, float] = {}
    expected: Effect | None = None
    guards: tuple[Guard, ...] = ()
    primary: Guard | None = None
    emergency: bool = False
    review: bool = False

    @property
    def place(self) -> str:
        """``knob`` or ``knob@intent``."""
        return place(self.knob, self.scope)

    def words(self) -> str:
        """``active_cap 8 → 16``."""
        return f"{self.place} {self.before.words()} → {self.setting.words()}"

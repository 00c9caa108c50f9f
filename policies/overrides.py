"""Overrides: what a person sets on a scope, whatever the loop thinks. Each one ends.

==========  =======================================================================================
``pin``     the knob has this setting; the loop goes on with everything else. A kill takes it away
``force``   the same, and over a kill and a hold too: for the day when nothing else is trusted
``freeze``  the loop begins nothing new on this scope; what is in force stays. A trial on it pauses
==========  =======================================================================================

Pins and forces expire in the engine itself (relative, monotonic clock), so a dead controller leaves
none behind. The learner never takes them for its own moves. What a stranger changed in a running
engine is kept as a pin too (``adopted``): it is where it is, so nothing is sent for it, and until
it ends nobody writes over it.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from policies.knobs import TARGET_SCOPE
from policies.settings import Layer, Setting, place

OverrideKind = Literal["pin", "force", "freeze"]
OverrideState = Literal["active", "ended"]
Expiries = Literal["keep", "let"]
"""Of a target that is let go of: what expires stays as it is for good, or is left to expire."""

PREFIX: Final[dict[OverrideKind, str]] = {"pin": "pin", "force": "frc", "freeze": "frz"}
"""How ids begin. Engines show them as a setting's policy, so they say what it is to anybody."""
FORCED: Final = f"{PREFIX['force']}_"


class Override(Struct, frozen=True, kw_only=True):
    """One override. ``rev`` rises with every change; writers compare and set it.

    ``knob`` None (freeze only): every knob of the scope. ``setting`` None: freeze.
    ``cause``: why it ended (``expired``, ``released by …``, ``killed``, ``engine restarted``, …).
    ``adopted``: the replica that a stranger changed, and that has it; None: a person set it.
    """

    id: str
    target: str
    kind: OverrideKind
    knob: str | None
    scope: str = TARGET_SCOPE
    setting: Setting | None = None
    reason: str
    by: str
    created_us: int
    expires_us: int
    state: OverrideState = "active"
    ended_us: int | None = None
    ended_by: str | None = None
    cause: str | None = None
    adopted: str | None = None
    rev: int = 0

    def words(self) -> str:
        """``pin active_cap = 8``, for lines in tables and reasons."""
        where = self.knob or "every knob"
        at = "" if self.scope == TARGET_SCOPE else f" of {self.scope}"
        what = "" if self.setting is None else f" = {self.setting.words()}"
        return f"{self.kind} {where}{at}{what}"

    def covers(self, knob: str, scope: str, *, now_us: int) -> bool:
        """Whether it is in force on that place now. One on the target covers its intents.

        A freeze of an intent covers the target's own place too: a change there would reach it.
        """
        reached = self.scope in (TARGET_SCOPE, scope)
        if self.kind == "freeze":
            reached = reached or scope == TARGET_SCOPE
        return self.in_force(now_us) and self.knob in (None, knob) and reached

    @property
    def place(self) -> str | None:
        """The place that it sets or keeps; None for a freeze."""
        if self.kind == "freeze" or self.knob is None or self.setting is None:
            return None
        return place(self.knob, self.scope)

    def in_force(self, now_us: int) -> bool:
        """Whether it holds now."""
        return self.state == "active" and now_us < self.expires_us

    def layer(self) -> Layer | None:
        """Its layer in the fold; None for a freeze, and for a change that is only left alone."""
        if self.kind == "freeze" or self.knob is None or self.setting is None:
            return None
        if self.adopted is not None:
            return None
        return Layer(
            knob=self.knob,
            scope=self.scope,
            setting=self.setting,
            policy_id=self.id,
            kind=self.kind,
            expires_us=self.expires_us,
        )

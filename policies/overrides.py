"""Overrides: what a person sets on a scope, whatever the loop thinks. Each one ends.

==========  =======================================================================================
``pin``     the knob has this setting; the loop goes on with everything else. A kill takes it away
``force``   the same, and over a kill and a hold too: for the day when nothing else is trusted
``freeze``  the loop begins nothing new on this scope; what is in force stays. A trial on it pauses
==========  =======================================================================================

Pins and forces expire in the engine itself (relative, monotonic clock), so a dead controller leaves
none behind. The learner never takes them for its own moves.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from policies.knobs import TARGET_SCOPE
from policies.settings import Layer, Setting

OverrideKind = Literal["pin", "force", "freeze"]
OverrideState = Literal["active", "ended"]


class Override(Struct, frozen=True, kw_only=True):
    """One override. ``rev`` rises with every change; writers compare and set it.

    ``knob`` None (freeze only): every knob of the scope. ``setting`` None: freeze.
    ``cause``: why it ended (``expired``, ``released by …``, ``foreign change``, …).
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
    rev: int = 0

    def words(self) -> str:
        """``pin active_cap = 8``, for lines in tables and reasons."""
        where = self.knob or "every knob"
        at = "" if self.scope == TARGET_SCOPE else f" of {self.scope}"
        what = "" if self.setting is None else f" = {self.setting.words()}"
        return f"{self.kind} {where}{at}{what}"

    def covers(self, knob: str, scope: str, *, now_us: int) -> bool:
        """Whether it is in force on that place now. One on the target covers its intents."""
        return (
            self.state == "active"
            and now_us < self.expires_us
            and self.knob in (None, knob)
            and self.scope in (TARGET_SCOPE, scope)
        )

    def layer(self) -> Layer | None:
        """Its layer in the fold; None for a freeze."""
        if self.kind == "freeze" or self.knob is None or self.setting is None:
            return None
        return Layer(
            knob=self.knob,
            scope=self.scope,
            setting=self.setting,
            policy_id=self.id,
            kind=self.kind,
            expires_us=self.expires_us,
        )

"""The parts of the settings book: moments, the clock that a hold stops, one knob's setting."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from engine.laws_running import RunningLaw
from policies.knobs import KnobSpec
from policies.laws import Law
from policies.runtime_config import Fallback, ObservedSetting, Shrink
from policies.settings import split


class Instant(Struct, frozen=True, kw_only=True):
    """One moment on both clocks: monotonic for durations, Unix for what people read."""

    mono_s: float
    wall_s: float


class EngineIdentity(Struct, frozen=True, kw_only=True):
    """Who the settings belong to. ``incarnation`` is random at each start."""

    target: str
    replica: str
    incarnation: str


class InForce(Struct, frozen=True, kw_only=True):
    """One knob's setting: a plain ``value`` or, when ``running`` is set, a law at work.

    ``expires_s`` is on a ``HoldableClock``.
    """

    value: int
    running: RunningLaw | None = None
    shrink: Shrink = "drain"
    policy_id: str | None = None
    fallback: Fallback | None = None
    expires_s: float | None = None

    @property
    def observed(self) -> int:
        """The number in force this step."""
        return self.value if self.running is None else self.running.value

    @property
    def law(self) -> Law | None:
        """The law in force, if it is one."""
        return None if self.running is None else self.running.law


class HoldableClock:
    """Monotonic seconds without those spent held: what is due on it waits out a hold.

    >>> clock = HoldableClock()
    >>> clock.hold(10.0); clock.now_s(17.0)
    10.0
    >>> clock.release(20.0); clock.now_s(21.0)
    11.0
    """

    def __init__(self) -> None:
        self._held_since_s: float | None = None
        self._held_total_s = 0.0

    @property
    def held(self) -> bool:
        """Whether it stands still."""
        return self._held_since_s is not None

    def now_s(self, mono_s: float) -> float:
        """This clock's time at the monotonic time ``mono_s``."""
        return (mono_s if self._held_since_s is None else self._held_since_s) - self._held_total_s

    def hold(self, mono_s: float) -> None:
        """Stand still from now on; no effect when it does already."""
        if self._held_since_s is None:
            self._held_since_s = mono_s

    def release(self, mono_s: float) -> None:
        """Go on from where it stood; no effect when it runs."""
        if self._held_since_s is not None:
            self._held_total_s += mono_s - self._held_since_s
            self._held_since_s = None


def observed(
    at: str, setting: InForce, spec: KnobSpec, clock: HoldableClock, now: Instant, *, running: int
) -> ObservedSetting:
    """A place's setting as GET shows it. ``running`` sequences tell whether a cap drains."""
    knob, scope = split(at)
    left_s = next_change_at = None
    if setting.expires_s is not None:
        left_s = max(0.0, setting.expires_s - clock.now_s(now.mono_s))
        next_change_at = None if clock.held else now.wall_s + left_s
    return ObservedSetting(
        knob=knob,
        scope=scope,
        value=setting.observed,
        law=setting.law,
        shrink=setting.shrink,
        policy_id=setting.policy_id,
        fallback=setting.fallback,
        expires_in_s=left_s,
        next_change_at=next_change_at,
        draining=spec.capability == "drain" and running > setting.observed,
    )


def digest(settings: Mapping[str, int | Law]) -> str:
    """16 hex digits of SHA-256 over the canonical JSON of knob -> value or law.

    >>> digest({"active_cap": 8, "b": 1}) == digest({"b": 1, "active_cap": 8})
    True
    """
    canonical = msgspec.json.encode(settings, order="deterministic")
    return hashlib.sha256(canonical).hexdigest()[:16]

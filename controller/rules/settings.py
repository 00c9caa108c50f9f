"""How a person declares a rule in ``trimtab.yaml``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from signals.configuring import Section, setting
from signals.settings import Name

Duration = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,6}(ms|s|m|h)$")]
Move = Annotated[int, Field(strict=True)] | Literal["up", "down"]

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class RuleSettings(Section):
    """A declared trigger: when a condition has held for long enough, propose a change."""

    id: Name = setting(..., unit="", reason="shown as the origin of what it proposes")
    when: str = setting(
        ...,
        unit="CEL",
        reason="a condition over features, all doubles: write 1.0, not 1",
        min_length=1,
        max_length=1000,
    )
    for_: Duration = setting(
        "0s", unit="duration", reason="how long the condition must hold without a gap", alias="for"
    )
    cooldown: Duration = setting(
        "60s", unit="duration", reason="after firing, silent this long: let the effect be seen"
    )
    emergency: bool = setting(
        False, unit="", reason="true: act first, expire soon; the rule is judged, not the act"
    )
    rearm: int = setting(
        0,
        unit="",
        reason="raise it to let an emergency that did harm act again; it is judged anew",
        ge=0,
        le=1_000_000,
    )
    propose: dict[Name, Move] = setting(
        ...,
        unit="knob's",
        reason="knob: value, or up or down by one ladder value; a policy changes one knob",
        min_length=1,
        max_length=1,
    )

    @property
    def for_s(self) -> float:
        """``for`` in seconds."""
        return seconds(self.for_)

    @property
    def cooldown_s(self) -> float:
        """``cooldown`` in seconds."""
        return seconds(self.cooldown)


class RuleTestSettings(Section):
    """How far a test of rules on history may look, and how much it may list."""

    max_span_s: int = setting(
        86_400,
        unit="s",
        reason="one test looks at no more, so that it holds the control plane up no longer",
        ge=60,
        le=604_800,
    )
    max_firings: int = setting(
        200, unit="firings", reason="listed of each rule; all are counted", ge=1, le=5000
    )
    recovery_s: int = setting(
        300,
        unit="s",
        reason="a condition that clears within this, with nothing changed, recovered by itself",
        ge=5,
        le=3600,
    )


def seconds(duration: str) -> float:
    """Seconds of a ``Duration``.

    >>> seconds("20s"), seconds("5m"), seconds("250ms")
    (20.0, 300.0, 0.25)
    """
    digits = duration.rstrip("msh")
    return int(digits) * _SECONDS[duration[len(digits) :]]

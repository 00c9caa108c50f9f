"""What a person declares of guardrails: everywhere, for one target, for one knob.

The most specific wins. What is left out keeps the value of the wider place.
"""

from __future__ import annotations

from datetime import UTC, time, tzinfo
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import StringConstraints, field_validator

from policies.knobs import Risk, Safer
from policies.limits import Day, FreezeWindow, Limits
from signals.configuring import Section, setting

Clock = Annotated[str, StringConstraints(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]

STEP: dict[str, Any] = {"unit": "steps", "ge": 1, "le": 64}
LADDER_STEPS: dict[str, Any] = {"unit": "steps", "ge": 1, "le": 16}
DWELL: dict[str, Any] = {"unit": "s", "ge": 0, "le": 86_400}
RATE: dict[str, Any] = {"unit": "steps", "ge": 1, "le": 10_000}
COOLDOWN: dict[str, Any] = {"unit": "s", "ge": 0, "le": 604_800}
FORGIVE: dict[str, Any] = {"unit": "s", "ge": 60, "le": 2_592_000}
PER_HOUR: dict[str, Any] = {"unit": "policies", "ge": 1, "le": 1000}
PENDING: dict[str, Any] = {"unit": "policies", "ge": 1, "le": 1000}
MOVING: dict[str, Any] = {"unit": "places", "ge": 1, "le": 16}
KEPT: dict[str, Any] = {"unit": "places", "ge": 1, "le": 1024}
REPLICAS: dict[str, Any] = {"unit": "replicas", "ge": 1, "le": 64}
INHERITED = "unset = as declared for the target, else everywhere"


class FreezeWindowSettings(Section):
    """A time of the week in which nothing new begins. What is in force stays, trials pause."""

    days: tuple[Day, ...] = setting(
        ("mon", "tue", "wed", "thu", "fri"),
        unit="",
        reason="working days; a window past midnight belongs to the day it begins on",
        min_length=1,
        max_length=7,
    )
    begins: Clock = setting(..., unit="HH:MM", reason="by the clocks of `zone`")
    ends: Clock = setting(
        ..., unit="HH:MM", reason="not after `begins` = on the next day; the minute itself is free"
    )
    zone: str = setting(
        "UTC",
        unit="",
        reason="an IANA time zone, e.g. Europe/Berlin; it follows its daylight saving",
        max_length=64,
    )

    @field_validator("zone")
    @classmethod
    def _known(cls, zone: str) -> str:
        zone_of(zone)
        return zone

    def window(self) -> FreezeWindow:
        """As the guardrail takes it."""
        return FreezeWindow(
            days=self.days,
            begins=time.fromisoformat(self.begins),
            ends=time.fromisoformat(self.ends),
            zone=zone_of(self.zone),
            zone_name=self.zone,
        )


class KnobGuardrails(Section):
    """Guardrails of one knob; what is unset is as for its target."""

    step: int | None = setting(None, reason=INHERITED, **STEP)
    ladder_steps: int | None = setting(None, reason=INHERITED, **LADDER_STEPS)
    dwell_s: float | None = setting(None, reason=INHERITED, **DWELL)
    steps_per_hour: int | None = setting(None, reason=INHERITED, **RATE)
    flip_s: float | None = setting(None, reason=INHERITED, **DWELL)
    cooldown_s: int | None = setting(None, reason=INHERITED, **COOLDOWN)
    cooldown_max_s: int | None = setting(None, reason=INHERITED, **COOLDOWN)
    forgive_s: int | None = setting(None, reason=INHERITED, **FORGIVE)


class TargetGuardrails(KnobGuardrails):
    """Guardrails of one target; what is unset is as everywhere."""

    max_per_hour: int | None = setting(None, reason=INHERITED, **PER_HOUR)
    max_pending: int | None = setting(None, reason=INHERITED, **PENDING)
    max_moving: int | None = setting(None, reason=INHERITED, **MOVING)
    max_kept: int | None = setting(None, reason=INHERITED, **KEPT)
    max_replicas: int | None = setting(None, reason=INHERITED, **REPLICAS)
    freeze: tuple[FreezeWindowSettings, ...] | None = setting(
        None, unit="", reason="unset = the windows declared everywhere; [] = none", max_length=64
    )


class GuardrailSettings(Section):
    """Bounds on what the loop may propose and apply, whatever it has learned."""

    step: int = setting(8, reason="ladder values per change; more is a person's to try", **STEP)
    ladder_steps: int = setting(
        1, reason="beyond the values tried before; models extrapolate badly", **LADDER_STEPS
    )
    dwell_s: float = setting(
        60.0, reason="between two changes of a knob: let the first one's effect be seen", **DWELL
    )
    steps_per_hour: int = setting(
        24, reason="ladder values that a knob moves; a knob that moves oftener hunts", **RATE
    )
    flip_s: float = setting(
        300.0, reason="no change of direction so soon: up and down in turn is oscillation", **DWELL
    )
    cooldown_s: int = setting(
        600,
        reason="the same change is not proposed again this soon after it ended; and the first"
        " undone move in a direction waits as long",
        **COOLDOWN,
    )
    cooldown_max_s: int = setting(
        86_400, reason="each further undone move doubles the wait, up to a day", **COOLDOWN
    )
    forgive_s: int = setting(
        21_600, reason="an undone move counts half after this: loads change within a day", **FORGIVE
    )
    max_per_hour: int = setting(
        12, reason="applied per target; a loop that acts oftener oscillates", **PER_HOUR
    )
    max_pending: int = setting(
        16, reason="waiting for a person or for their turn; more is noise", **PENDING
    )
    max_moving: int = setting(
        1, reason="places changed at once; with two nobody knows which one did it", **MOVING
    )
    max_kept: int = setting(
        16, reason="places off the baseline; more is a baseline that nobody declared", **KEPT
    )
    max_replicas: int = setting(
        64, reason="replicas that one change reaches: all that a target may have", **REPLICAS
    )
    freeze: tuple[FreezeWindowSettings, ...] = setting(
        (), unit="", reason="no recurring windows until somebody declares them", max_length=64
    )
    settle_s: int = setting(
        300,
        unit="s",
        reason="trials wait this long after a declared change: caches warm, queues drain",
        ge=0,
        le=86_400,
    )
    max_changes: int = setting(
        32,
        unit="changes",
        reason="declared, open or to come, on one target; more is a pipeline that never ends any",
        ge=1,
        le=1000,
    )
    max_change_s: int = setting(
        604_800,
        unit="s",
        reason="a declared change begins, and lasts, no further from now than this",
        ge=60,
        le=31_536_000,
    )
    auto_risk: Risk = setting(
        "medium",
        unit="",
        reason="mode auto begins nothing riskier alone; what is riskier asks two people",
    )
    emergency_s: int = setting(
        600, unit="s", reason="an emergency policy expires in the engine after this", ge=10, le=1800
    )


def limits(
    everywhere: GuardrailSettings,
    target: TargetGuardrails,
    knob: KnobGuardrails,
    *,
    ladder: tuple[int, ...],
    bounds: tuple[int, int] | None,
    safer: Safer | None,
) -> Limits:
    """One place's limits. ``bounds``: lowest and highest declared value of the knob."""
    figures: dict[str, Any] = {}
    for name in TargetGuardrails.model_fields:
        said = (getattr(knob, name, None), getattr(target, name), getattr(everywhere, name))
        figures[name] = next(value for value in said if value is not None)
    windows = figures.pop("freeze")
    low, high = bounds or (None, None)
    return Limits(
        ladder=ladder,
        low=low,
        high=high,
        safer=safer,
        windows=tuple(window.window() for window in windows),
        **figures,
    )


def zone_of(name: str) -> tzinfo:
    """The time zone. Raises ``ValueError``, saying where it was looked for."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"this machine knows no time zone {name!r}; `UTC` always is") from error

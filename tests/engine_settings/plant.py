"""A settings book on clocks that only the test moves."""

from __future__ import annotations

from engine.generation import CLASSES
from engine.knobs import embedded_knobs
from engine.metering import ArrivalMeter
from engine.settings_book import SettingsBook
from engine.settings_in_force import EngineIdentity, Instant
from policies.laws import Law, LawStep
from policies.runtime_config import Patch, RuntimeConfig, SettingChange, TrialStamp

BOOT_WALL_S = 1_800_000_000.0
CAPACITY = 64
IDENTITY = EngineIdentity(target="chat", replica="r0", incarnation="cafe")
KNOBS = embedded_knobs(
    capacity_active=CAPACITY,
    capacity_budget=512,
    boot_active_cap=32,
    boot_step_token_budget=None,
)


def at(mono_s: float) -> Instant:
    """A moment ``mono_s`` after boot; the two clocks run alike."""
    return Instant(mono_s=mono_s, wall_s=BOOT_WALL_S + mono_s)


def chat_law(default: int = 64, present: int = 8, **fields: float) -> Law:
    """``present`` while an interactive request arrived in the last 2 s, else ``default``."""
    steps = (LawStep(above=0.0, value=present),)
    return Law(
        variable="arrivals",
        class_="interactive",
        window_s=2.0,
        default=default,
        steps=steps,
        hysteresis=fields.get("hysteresis", 0.0),
        min_dwell_s=fields.get("min_dwell_s", 0.0),
    )


class Bench:
    """A book, its meter, and patches that expect what is in force."""

    def __init__(self, remembered: int = 16) -> None:
        self.meter = ArrivalMeter(CLASSES)
        self.book = SettingsBook(
            IDENTITY, KNOBS, self.meter, CLASSES, remembered=remembered, now=at(0.0)
        )
        self._changes = 0

    def patch(
        self,
        *settings: SettingChange,
        epoch: int = 0,
        expected: str | None = None,
        change_id: str | None = None,
        trial: TrialStamp | None = None,
        hold: bool | None = None,
    ) -> Patch:
        """A patch with a new id, expecting the present version unless told otherwise."""
        self._changes += 1
        return Patch(
            change_id=change_id or f"change-{self._changes}",
            epoch=epoch,
            expected=expected or f"{IDENTITY.incarnation}:{self.book.stamp.version}",
            settings=settings,
            trial=trial,
            hold=hold,
        )

    def cap(self, now_s: float, value: int | None = None, **fields: object) -> RuntimeConfig:
        """Set the active cap."""
        change = SettingChange(knob="active_cap", value=value, **fields)  # type: ignore[arg-type]
        return self.book.apply(self.patch(change), at(now_s))

    @property
    def observed(self) -> int:
        """The active cap in force."""
        return self.book.setting("active_cap").observed

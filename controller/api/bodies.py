"""What callers send. Unknown members are refused."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from pydantic import BaseModel, ConfigDict, Field, model_validator

from controller.hand_made import Wanted
from controller.keys import ANY, MAX_GRACE_S, MAX_RATE_PER_S, KeyRequest
from controller.override_acts import OverrideRequest
from controller.store.port import Role
from policies.changes import ChangeKind
from policies.knobs import TARGET_SCOPE
from policies.laws import Variable
from policies.overrides import Expiries, OverrideKind
from policies.policy import Guard, Mode, OriginKind
from policies.runtime_config import MAX_EXPIRY_S, Shrink
from policies.settings import Setting
from signals.errors import Rejected
from signals.events import MICROS
from signals.settings import Name

Reason = Annotated[str, Field(min_length=1, max_length=2000, description="kept in the audit")]
Place = Annotated[
    str,
    Field(pattern=r"^[a-z][a-z0-9_]*(@[a-z][a-z0-9_]*)?$", max_length=128),
]
Margin = Annotated[float, Field(gt=0, le=1e12)]
Names = Annotated[tuple[str, ...], Field(max_length=256)]


MAX_US: Final = 2**53
"""Times in bodies: whole in every JSON reader."""


class Body(BaseModel):
    """Base of every request body."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class WithReason(Body):
    """An act that needs a reason."""

    reason: Reason


class Sealing(Body):
    """How much of the audit is sealed: what is older than a time, or so many entries."""

    before_us: int | None = Field(default=None, ge=0, le=2**53 - 1)
    entries: int | None = Field(default=None, ge=1, le=10_000_000)


class Approval(Body):
    """Approves exactly what was shown: the digest comes with the policy."""

    shown_digest: str = Field(min_length=1, max_length=64)


class LawStepBody(Body):
    """One step of a law."""

    above: float = Field(ge=0)
    value: int


class LawBody(Body):
    """A step function of one exogenous variable."""

    variable: Variable
    class_: str | None = Field(default=None, alias="class")
    window_s: float = Field(gt=0, le=600)
    default: int
    steps: tuple[LawStepBody, ...] = Field(min_length=1, max_length=16)
    hysteresis: float = Field(default=0.0, ge=0)
    min_dwell_s: float = Field(default=0.0, ge=0, le=600)


class SettingBody(Body):
    """A value or a law; exactly one."""

    value: int | None = None
    law: LawBody | None = None
    shrink: Shrink = "drain"

    def setting(self) -> Setting:
        """As the rest of the house has it. Raises ``Rejected``."""
        if (self.value is None) == (self.law is None):
            raise Rejected(
                "a setting is a value or a law", field="setting", allowed="exactly one of the two"
            )
        plain: dict[str, Any] = self.model_dump(by_alias=True, exclude_none=True)
        return msgspec.convert(plain, Setting)


class PrimaryBody(Body):
    """A declared metric that a change is tried by."""

    metric: Name
    effect: Margin = Field(description="the smallest difference that is to be found, in its unit")


class Proposal(Body):
    """A policy by hand."""

    target: Name
    knob: Name
    scope: Name = Field(default=TARGET_SCOPE, description="target, or an intent's name")
    setting: SettingBody
    reason: Reason
    supersede: bool = Field(
        default=False, description="what waits for a person on the same place gives way to it"
    )
    guards: dict[Name, Margin] = Field(
        default_factory=dict,
        max_length=8,
        description="declared metric: margin, in its own unit; kept provisionally until users'"
        " feedback has not shown it worse by so much",
    )
    primary: PrimaryBody | None = Field(
        default=None,
        description="a declared metric that it is tried by, instead of the target's utility; only"
        " where sessions are split",
    )

    def wanted(self) -> Wanted:
        """As the rest of the house has it. Raises ``Rejected``."""
        primary = self.primary
        return Wanted(
            target=self.target,
            knob=self.knob,
            setting=self.setting.setting(),
            reason=self.reason,
            scope=self.scope,
            supersede=self.supersede,
            guards=tuple(
                Guard(metric=name, margin=margin) for name, margin in sorted(self.guards.items())
            ),
            primary=None
            if primary is None
            else Guard(metric=primary.metric, margin=primary.effect),
        )


class RevertBody(WithReason):
    """Take a policy back."""

    with_newer: bool = Field(
        default=False, description="also kept policies that lie above it on the same place"
    )


class HypotheticalBody(Body):
    """A change that nobody makes: what would become of it?"""

    target: Name
    knob: Name
    scope: Name = Field(default=TARGET_SCOPE, description="target, or an intent's name")
    setting: SettingBody
    origin: OriginKind = Field(default="person", description="who would propose it")
    emergency: bool = Field(default=False, description="as an emergency rule would")


class ChangeBody(Body):
    """What is done to a target beside Trimtab. Without an end it is open until it is ended."""

    target: Name
    kind: ChangeKind
    reason: Reason
    from_us: int | None = Field(default=None, ge=0, le=MAX_US, description="unset = now")
    until_us: int | None = Field(default=None, ge=0, le=MAX_US, description="its end, if known")
    duration_s: int | None = Field(
        default=None, ge=1, le=31_536_000, description="or how long it takes; not both"
    )

    @model_validator(mode="after")
    def _one_end(self) -> ChangeBody:
        if self.until_us is not None and self.duration_s is not None:
            raise ValueError("give until_us or duration_s, not both")
        return self


class ModeBody(Body):
    """How far the loop may go with a knob."""

    mode: Mode


class OneOrAll(WithReason):
    """An act on one target, or on every one."""

    target: Name | None = None


class OverrideBody(WithReason):
    """A pin, a force or a freeze. ``knob`` unset (freeze only): every knob of the scope."""

    target: Name
    kind: OverrideKind
    knob: Name | None = None
    scope: Name = Field(default=TARGET_SCOPE, description="target, or an intent's name")
    setting: SettingBody | None = None
    expires_in_s: float = Field(gt=0, le=MAX_EXPIRY_S, description="the engine ends it itself")

    def wanted(self) -> OverrideRequest:
        """As the rest of the house has it. Raises ``Rejected``."""
        return OverrideRequest(
            target=self.target,
            kind=self.kind,
            knob=self.knob,
            scope=self.scope,
            setting=None if self.setting is None else self.setting.setting(),
            reason=self.reason,
            expires_in_s=self.expires_in_s,
        )


class BaselineBody(WithReason):
    """A whole baseline; what it does not name has the engine's boot value."""

    name: Name = "baseline"
    settings: dict[Place, SettingBody] = Field(max_length=1024)

    def places(self) -> dict[str, Setting]:
        """By place. Raises ``Rejected``."""
        return {at: body.setting() for at, body in self.settings.items()}


class RollbackBody(WithReason):
    """To last stable, or to a time."""

    to: str = Field(
        default="last-stable",
        max_length=64,
        description="last-stable, or a time: RFC 3339, or µs since 1970",
    )


class DetachBody(WithReason):
    """``keep``: what expires in the engine is made to stay; ``let``: it expires as before."""

    expiries: Expiries


class NewKey(Body):
    """A key for a person or a producer; targets and intents bound it, the rest a producer."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_.@-]{0,62}$", description="whose it is")
    role: Role
    targets: Names = (ANY,)
    intents: Names = (ANY,)
    kinds: Names = ()
    names: Names = (ANY,)
    rate_per_s: float | None = Field(
        default=None,
        gt=0,
        le=MAX_RATE_PER_S,
        description="events that ingest takes from it per second; unset = no bound of its own",
    )
    influence: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="the largest share that its values may have of any rate",
    )
    team: Name | None = Field(
        default=None, description="the team whose metric definitions the key may change"
    )
    expires_in_s: int | None = Field(default=None, ge=60, le=315_360_000)

    def wanted(self, now_us: int) -> KeyRequest:
        """As the rest of the house has it."""
        expires_us = None if self.expires_in_s is None else now_us + self.expires_in_s * MICROS
        return KeyRequest(
            name=self.name,
            role=self.role,
            targets=self.targets,
            intents=self.intents,
            kinds=self.kinds,
            names=self.names,
            rate_per_s=self.rate_per_s,
            influence=self.influence,
            team=self.team or "",
            expires_us=expires_us,
        )


class Rotation(Body):
    """A new secret for a key."""

    grace_s: int = Field(
        default=3600, ge=0, le=MAX_GRACE_S, description="the old secret works this much longer"
    )

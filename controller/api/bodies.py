"""What callers send. Unknown members are refused."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from pydantic import BaseModel, ConfigDict, Field

from controller.keys import ANY, MAX_GRACE_S, MAX_RATE_PER_S, KeyRequest
from controller.store.port import Role
from policies.laws import Variable
from policies.policy import Mode
from policies.runtime_config import Shrink
from policies.settings import Setting
from signals.errors import Rejected
from signals.events import MICROS
from signals.settings import Name

Reason = Annotated[str, Field(min_length=1, max_length=2000, description="kept in the audit")]
Names = Annotated[tuple[str, ...], Field(max_length=256)]


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


class Proposal(Body):
    """A policy by hand."""

    target: Name
    knob: Name
    setting: SettingBody
    reason: Reason


class ModeBody(Body):
    """How far the loop may go with a knob."""

    mode: Mode


class OneOrAll(WithReason):
    """An act on one target, or on every one."""

    target: Name | None = None


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

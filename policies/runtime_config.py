"""The engine settings contract, as it goes over the wire: ``GET/PATCH /v1/runtime_config``.

One HTTP suite (``tests/contract``) holds every engine to it. Meaning of a PATCH: validate
everything, then apply everything at the next step boundary, and answer after application with the
observed values.

====================================  =========================================================
repeated ``change_id``                the first answer again, nothing applied twice
``epoch`` lower than one seen         409 ``fenced``
``expected`` is not the present       409 ``stale``
``incarnation:version``
out of range, unknown knob, scope     422 with what is allowed
no answer in time                     unknown: the caller GETs
====================================  =========================================================

``expires_in_s`` is relative and measured on the engine's monotonic clock; on expiry the engine
itself goes to ``fallback``, which the controller computed from the layers below. ``hold`` true
suspends expiries and freezes every law at its present value until ``hold`` false.

A trial moves the whole engine to one ``arm``, or ``split``s its sessions over both: then a request
arrives in the arm that the keyed hash of its session says (``policies/session_split.py``), and
settings with ``arm`` ``candidate`` are those of the candidate's sessions alone, over what all have.
Only a knob that is ``per_request`` can be split. Such settings end with the trial, or with another
split; when one of them expires, the trial in the stamp ends with it.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from policies.knobs import KnobSpec
from policies.laws import Law

Shrink = Literal["drain", "preempt"]
Cause = Literal["boot", "patch", "expiry", "law", "hold", "release"]
Arm = Literal["baseline", "candidate"]

CONTROL_PATH = "/v1/runtime_config"
MAX_EXPIRY_S = 7 * 24 * 3600.0
LOG_ENTRIES = 1024


class Fallback(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a knob goes to when its setting expires: a value, a law, or (neither) the boot value."""

    value: int | None = None
    law: Law | None = None
    policy_id: str | None = None


class SettingChange(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A knob's new setting; neither ``value`` nor ``law`` means inherit (the boot value; at an
    intent's scope what the target has; of the candidate's arm what all have).
    """

    knob: str
    scope: str = "target"
    value: int | None = None
    law: Law | None = None
    shrink: Shrink = "drain"
    fallback: Fallback | None = None
    policy_id: str | None = None
    expires_in_s: float | None = None
    arm: Arm | None = None


class SessionSplit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which sessions have the candidate: a ``share`` of them, by the hash keyed with ``salt``."""

    salt: str
    share: float


class TrialStamp(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which randomised block and arm a request arrived in.

    A request's stamp always has an ``arm``. An engine's trial has either one, in which all its
    requests arrive, or a ``split``, by which each session has its own.
    """

    id: str
    block: int
    arm: Arm | None = None
    split: SessionSplit | None = None


class Patch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One change of a running engine. Knobs it does not name keep what they have.

    ``trial`` replaces the stamp's trial: None ends it. ``hold`` None leaves the hold as it is.
    """

    change_id: str
    epoch: int
    expected: str
    settings: tuple[SettingChange, ...] = ()
    trial: TrialStamp | None = None
    hold: bool | None = None


class ObservedSetting(Struct, frozen=True, kw_only=True):
    """What a knob has now. ``value`` is the number in force this step, also under a law.

    ``effective`` is what the scheduler really enforces while a lowered cap drains: the number of
    running sequences may still exceed ``value``; ``draining`` says so.
    """

    knob: str
    scope: str
    value: int
    law: Law | None = None
    shrink: Shrink = "drain"
    policy_id: str | None = None
    fallback: Fallback | None = None
    expires_in_s: float | None = None
    next_change_at: float | None = None
    draining: bool = False
    arm: Arm | None = None


class Change(Struct, frozen=True, kw_only=True):
    """One line of the engine's change log. ``at`` is the engine's Unix time in seconds.

    ``policy_id``: whose setting came (``patch``) or went (``expiry``). ``law`` and ``holder``: the
    law and the policy that the place has after it, so that what was in force at any time can be
    told from the log alone. ``before`` None: nothing yet; ``after`` None: nothing of its own.
    """

    seq: int
    at: float
    cause: Cause
    version: int
    digest: str
    change_id: str | None = None
    knob: str | None = None
    before: int | None = None
    after: int | None = None
    scope: str = "target"
    policy_id: str | None = None
    law: Law | None = None
    holder: str | None = None
    trial: TrialStamp | None = None
    arm: Arm | None = None


class RuntimeConfig(Struct, frozen=True, kw_only=True):
    """The answer to GET, and to PATCH once applied.

    ``change_id`` is the PATCH this answers (None for GET). ``log_from`` is the lowest ``seq`` still
    held: a reader that has seen less knows its history has a hole. ``candidate``: what sessions of
    the candidate's arm have instead, while a trial splits them.
    """

    target: str
    replica: str
    incarnation: str
    version: int
    digest: str
    epoch: int
    hold: bool
    engine_time: float
    applied_at: float | None = None
    change_id: str | None = None
    trial: TrialStamp | None = None
    knobs: tuple[KnobSpec, ...]
    settings: tuple[ObservedSetting, ...]
    log_from: int = 0
    changes: tuple[Change, ...] = ()
    candidate: tuple[ObservedSetting, ...] = ()

    @property
    def expected(self) -> str:
        """What a PATCH must carry to change exactly this state."""
        return f"{self.incarnation}:{self.version}"

    def setting(self, knob: str, scope: str = "target") -> ObservedSetting | None:
        """The observed setting of one knob at a scope.

        None at an intent's scope: it has no setting of its own there, so it inherits the target's.
        """
        return next((s for s in self.settings if s.knob == knob and s.scope == scope), None)

    def theirs(self, knob: str, scope: str = "target") -> ObservedSetting | None:
        """What sessions of the candidate's arm have instead; None: what all have."""
        return next((s for s in self.candidate if s.knob == knob and s.scope == scope), None)


class Stamp(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What every answer carries (``X-Trimtab-Stamp``): the settings it was made under."""

    target: str
    replica: str
    incarnation: str
    version: int
    digest: str
    trial: TrialStamp | None = None
    policies: tuple[str, ...] = ()

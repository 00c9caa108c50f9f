"""What bounds an operator's acts: holds, kills, rollbacks, overrides."""

from __future__ import annotations

from policies.runtime_config import MAX_EXPIRY_S
from signals.configuring import Section, setting


class ControlSettings(Section):
    """Acts of people on engines, which must work when everything else is broken."""

    deadline_ms: int = setting(
        1300,
        unit="ms",
        reason="an act waits so long for all replicas together, late ones are listed; with the"
        " rest of it, 64 replicas stay within 2 s",
        ge=100,
        le=30_000,
    )
    threads: int = setting(
        96,
        unit="threads",
        reason="replicas spoken to at once: 64, and those that hang beside them",
        ge=1,
        le=512,
    )
    store_ms: int = setting(
        200,
        unit="ms",
        reason="an act waits so long for what was kept; then it goes by what was last read",
        ge=10,
        le=10_000,
    )
    record_ms: int = setting(
        500,
        unit="ms",
        reason="an act waits so long to be recorded; then the record follows it",
        ge=10,
        le=10_000,
    )
    max_override_s: int = setting(
        86_400,
        unit="s",
        reason="a pin that is meant to stay is a baseline or a policy",
        ge=60,
        le=int(MAX_EXPIRY_S),
    )
    max_overrides: int = setting(
        64, unit="overrides", reason="active on one target; more is a baseline", ge=1, le=1000
    )
    rollback_pin_s: int = setting(
        14_400,
        unit="s",
        reason="what a rollback to a time has to pin stays so long: a shift to decide in",
        ge=60,
        le=int(MAX_EXPIRY_S),
    )

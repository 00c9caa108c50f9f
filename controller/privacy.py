"""Settings of privacy: pseudonyms for ids, and how long the store keeps what may go."""

from __future__ import annotations

from signals.configuring import Section, setting

DAY_S = 86_400


class PrivacySettings(Section):
    """What is kept of people, and for how long; the stages' own retention is in their sections."""

    hash_ids: bool = setting(
        False,
        unit="",
        reason="store session and external ids only as pseudonyms, keyed by keys/privacy.key;"
        " what was stored before stays as it was",
    )
    decision_days: int = setting(
        90, unit="days", reason="replayable decisions; what came of them is in the audit", ge=1
    )
    delivery_days: int = setting(
        14, unit="days", reason="webhook deliveries that are done, to be looked at", ge=1, le=365
    )
    prune_every_s: float = setting(
        60.0, unit="s", reason="between two steps of the store's retention", gt=0, le=3600
    )
    prune_rows: int = setting(
        500, unit="rows", reason="of each table in one step; the lock is held a few ms", ge=1
    )

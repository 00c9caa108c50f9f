"""How emergency rules are judged, and how what they did is released."""

from __future__ import annotations

from signals.configuring import Section, setting


class EmergencySettings(Section):
    """An emergency acts first. Whether its rule is any good is told from acts that came later."""

    delayed_share: float = setting(
        0.2,
        unit="share",
        reason="of a rule's episodes, by chance, act later, so that its worth is known; 0 = never,"
        " and it is never judged",
        ge=0,
        le=0.5,
    )
    delay_s: float = setting(
        20.0, unit="s", reason="how much later: long enough to be seen, short to bear", ge=1, le=300
    )
    least_attainment: float = setting(
        0.5,
        unit="share",
        reason="with an intent below it nothing is delayed: that is no time for experiments",
        ge=0,
        le=1,
    )
    most_kv_usage: float = setting(
        0.9, unit="share", reason="nor with KV memory this full: the wall is near", gt=0, le=1
    )
    horizon_s: float = setting(
        120.0,
        unit="s",
        reason="an episode's outcome is the attainment from its trigger until then, whoever acts",
        ge=10,
        le=3600,
    )
    scale: float = setting(
        0.1,
        unit="share",
        reason="a difference in attainment that is worth noticing; bets are made for about it",
        gt=0,
        le=1,
    )
    alpha: float = setting(
        0.01, unit="probability", reason="of a verdict on a rule that does nothing", gt=0, le=0.2
    )
    min_episodes: int = setting(
        10, unit="episodes", reason="before any verdict: a few are a story", ge=4, le=1000
    )
    max_episodes: int = setting(
        200,
        unit="episodes",
        reason="without a verdict by then nothing is delayed any more: the difference is small",
        ge=10,
        le=10_000,
    )

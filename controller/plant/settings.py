"""Settings of the plant model: how far its predictions are trusted."""

from __future__ import annotations

from signals.configuring import Section, setting


class PlantSettings(Section):
    """The plant model: the step curve, memory's wall, and the law it proposes."""

    min_steps: int = setting(
        100,
        unit="steps",
        reason="seen with traffic before anything is proposed: the prompt mix matters",
        ge=1,
        le=1_000_000,
    )
    prior_share: float = setting(
        0.1,
        unit="share",
        reason="the boot curve's weight beside the steps seen; it spans all batch sizes",
        gt=0,
        le=10,
    )
    tpot_safety: float = setting(
        0.15,
        unit="share",
        reason="predicted mean TPOT stays this far below the limit; requests differ",
        ge=0,
        le=2,
    )
    drain_share: float = setting(
        0.5,
        unit="share",
        reason="of the TTFT limit; running work that needs longer is preempted when a law lowers",
        ge=0,
        le=10,
    )
    min_points: int = setting(
        30,
        unit="s",
        reason="seconds with steps, before both forms of the step curve are compared on them",
        ge=10,
        le=100_000,
    )
    memory_quantile: float = setting(
        0.95,
        unit="share",
        reason="of the contexts seen; each of so many sequences at once is taken to be this long",
        ge=0.5,
        le=1,
    )
    memory_margin: float = setting(
        0.02,
        unit="share",
        reason="of KV memory that stays free for ever; a block or two a sequence are half empty",
        gt=0,
        lt=1,
    )
    memory_margin_after: float = setting(
        0.3, unit="share", reason="that stays free right after an exhaustion", gt=0, lt=1
    )
    memory_half_life_s: float = setting(
        21_600.0,
        unit="s",
        reason="the wider margin halves in so long; traffic of the next day finds little of it",
        ge=60,
        le=31_536_000,
    )
    residual_half_life_s: float = setting(
        86_400.0,
        unit="s",
        reason="what was measured beside a prediction counts half after so long",
        ge=60,
        le=31_536_000,
    )
    residual_prior: float = setting(
        0.5,
        unit="trials",
        reason="weight of no correction at each value, so that what is old fades out",
        gt=0,
        le=100,
    )
    residual_spread: float = setting(
        0.1,
        unit="log",
        reason="taken as the deviation of a single measurement beside its prediction",
        gt=0,
        le=10,
    )
    residual_widening: float = setting(
        0.1,
        unit="log",
        reason="more uncertainty for each ladder value beyond the tested ones",
        ge=0,
        le=10,
    )
    foreign_weight: float = setting(
        0.25,
        unit="share",
        reason="weight of what was measured under another fingerprint, where it may count at all",
        ge=0,
        lt=1,
    )

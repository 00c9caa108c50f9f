"""Settings of the plant model: how far its predictions are trusted."""

from __future__ import annotations

from signals.configuring import Section, setting


class PlantSettings(Section):
    """The plant model: the step curve, and the law it proposes."""

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

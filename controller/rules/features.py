"""The features that conditions may name beside those of metrics."""

from __future__ import annotations

from typing import Final

FEATURES: Final = (
    "attainment",
    "error_rate",
    *(f"{time}_ms_{rank}" for time in ("ttft", "tpot", "e2e") for rank in ("p50", "p95", "p99")),
    "arrivals_per_s",
    "offered_tokens_per_s",
    "tokens_per_s",
    "goodput_per_s",
    "goodput_tokens_per_s",
    "waiting",
    "running",
    "kv_usage",
    "kv_hit_ratio",
    "reward_mean",
)
"""What every intent and the target itself has, beside ``<metric>_rate``."""

RATE: Final = "_rate"

"""Settings of the engine room: the model, its memory, its threads, its bounds, its listeners."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import model_validator

from engine.serving_settings import ServingSettings, TelemetrySettings
from signals.configuring import setting

BLOCK_TOKENS = 16
"""Tokens in one KV block. Fixed: a block is one vector of the attention kernel."""


def default_cache() -> Path:
    """Where models, prepared weights and compiled kernels are kept."""
    return Path(os.environ.get("TRIMTAB_CACHE") or Path.home() / ".cache" / "trimtab" / "models")


def set_thread_environment() -> None:
    """Make waiting OpenMP threads sleep, not spin. To be called before torch is imported."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


class EngineSettings(ServingSettings, TelemetrySettings):
    """The embedded engine. What is fixed at start is here; what is live is a knob."""

    cache: Path = setting(default_cache, unit="", reason="$TRIMTAB_CACHE, else the home cache")
    context: int = setting(
        2048,
        unit="tokens",
        reason="prompt and answer together; the model allows 8192",
        ge=64,
        le=8192,
    )
    kv_blocks: int = setting(
        2048, unit="blocks", reason="64 sequences of 512 tokens; 0.36 MiB a block", ge=4, le=65_536
    )
    capacity_active: int = setting(
        64, unit="sequences", reason="highest active cap; throughput is flat beyond", ge=1, le=256
    )
    capacity_budget: int = setting(
        512,
        unit="tokens",
        reason="highest step token budget, if a step of it takes ≤ step_limit_ms",
        ge=64,
        le=2048,
    )
    step_limit_ms: int = setting(
        300,
        unit="ms",
        reason="settings land at step boundaries, and a kill must land within 1 s",
        ge=20,
        le=5000,
    )
    boot_active_cap: int | None = setting(
        None, unit="sequences", reason="active cap at boot; unset = capacity", ge=1, le=256
    )
    boot_step_token_budget: int | None = setting(
        None, unit="tokens", reason="step token budget at boot; unset = capacity", ge=64, le=2048
    )
    max_queue: int = setting(
        512, unit="requests", reason="waiting requests; beyond it 429", ge=1, le=100_000
    )
    threads: int = setting(
        1,
        unit="threads",
        reason="a second one fights with the other stages on two cores",
        ge=1,
        le=64,
    )
    idle_boundary_ms: int = setting(
        50, unit="ms", reason="an idle engine looks for changed settings this often", ge=1, le=50
    )
    calibration_repeats: int = setting(
        3, unit="steps", reason="median of so many per point of the step curve", ge=1, le=51
    )

    @model_validator(mode="after")
    def _one_request_fits(self) -> EngineSettings:
        """A sequence that can never fit would wait for ever, so the pool holds one full context."""
        if self.kv_blocks * BLOCK_TOKENS < self.context:
            raise ValueError(
                f"kv_blocks = {self.kv_blocks} hold {self.kv_blocks * BLOCK_TOKENS} tokens,"
                f" less than context = {self.context}"
            )
        return self

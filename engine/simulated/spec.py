"""What a simulated replica is: its speed, its memory, its knobs."""

from __future__ import annotations

from msgspec import Struct

from engine.knobs import embedded_knobs
from engine.simulated.step_times import StepTimes
from policies.knobs import KnobSpec

PREFIX_RETENTION = "prefix_retention_blocks"


class ReplicaSpec(Struct, frozen=True, kw_only=True):
    """One engine. ``boot_*`` None: the capacity.

    ``kv_blocks`` of ``block_tokens`` tokens are what the engine believes it has, ``memory_blocks``
    what really fits (None: as believed); a step that needs more than fits kills the engine, which
    is then away for ``restart_us``. ``capacity_retention`` > 0 gives it a prefix cache and the live
    knob ``prefix_retention_blocks`` (blocks as in ``Offered.prefix``), 0 neither.
    ``capacity_answer`` > 0 gives it the knob ``answer_tokens``, of which each of ``intents`` may
    have its own.
    """

    step_times: StepTimes
    kv_blocks: int = 16_384
    block_tokens: int = 16
    memory_blocks: int | None = None
    capacity_active: int = 64
    capacity_budget: int = 512
    boot_active_cap: int | None = None
    boot_step_token_budget: int | None = None
    capacity_retention: int = 0
    boot_retention: int | None = None
    capacity_answer: int = 0
    intents: tuple[str, ...] = ()
    max_queue: int = 100_000
    restart_us: int = 30_000_000
    second_us: int = 1_000_000

    def knobs(self) -> tuple[KnobSpec, ...]:
        """Those of the embedded engine, and the cache's where it has one."""
        knobs = embedded_knobs(
            capacity_active=self.capacity_active,
            capacity_budget=self.capacity_budget,
            boot_active_cap=self.boot_active_cap,
            boot_step_token_budget=self.boot_step_token_budget,
            capacity_answer=self.capacity_answer,
            intents=self.intents,
        )
        return (*knobs, *self._retention()) if self.capacity_retention else knobs

    def _retention(self) -> tuple[KnobSpec, ...]:
        boot = self.capacity_retention if self.boot_retention is None else self.boot_retention
        return (
            KnobSpec(
                name=PREFIX_RETENTION,
                unit="blocks",
                low=0,
                capacity=self.capacity_retention,
                boot=min(boot, self.capacity_retention),
                capability="live",
                effect_delay_s=5.0,
                risk="low",
                doc="prompt blocks kept for later requests with the same prefix; they take KV"
                " memory that running sequences then lack",
            ),
        )

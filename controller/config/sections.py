"""The controller room's own settings: the loop's process, trials, supervision."""

from __future__ import annotations

import math

from pydantic import model_validator

from policies.budgets import BudgetKind
from signals.configuring import Section, setting


class ServeSettings(Section):
    """The process that runs the loop and answers the control plane."""

    host: str = setting("127.0.0.1", unit="", reason="loopback until somebody says otherwise")
    port: int = setting(8080, unit="port", reason="the control plane and console", ge=1, le=65535)
    tick_ms: int = setting(
        100,
        unit="ms",
        reason="the loop reads windows this often; they come every 100 ms",
        ge=10,
        le=1000,
    )
    reconcile_ms: int = setting(
        500,
        unit="ms",
        reason="each replica is read back this often when nothing changes",
        ge=50,
        le=60_000,
    )
    read_noted_s: int = setting(
        60,
        unit="s",
        reason="the store hears this often until when each replica's settings are known; what an"
        " engine that dies while nobody looks had in between stays unknown",
        ge=1,
        le=3600,
    )
    rules_poll_ms: int = setting(
        1000,
        unit="ms",
        reason="the configuration file is read this often for other rules",
        ge=100,
        le=600_000,
    )
    actuator_timeout_ms: int = setting(
        2000,
        unit="ms",
        reason="a step takes up to 300 ms; beyond this the outcome is unknown",
        ge=100,
        le=60_000,
    )
    foreign_s: int = setting(
        3600,
        unit="s",
        reason="a foreign change is kept, and its knob only observes, this long",
        ge=0,
        le=604_800,
    )
    max_body_bytes: int = setting(
        262_144, unit="bytes", reason="a law takes about 500; bounds memory", ge=1024, le=16_777_216
    )
    max_connections: int = setting(
        256, unit="connections", reason="of people and scripts; beyond it 503", ge=8, le=65_536
    )
    keys_cache_s: float = setting(
        2.0, unit="s", reason="a revoked key works no longer than this", ge=0, le=5
    )
    command_timeout_ms: int = setting(
        3000,
        unit="ms",
        reason="ingest has so long to take an operator's command; then 503",
        ge=100,
        le=60_000,
    )
    definitions_cache_s: float = setting(
        2.0, unit="s", reason="other processes follow a metric's change this soon", ge=0, le=5
    )
    max_metrics: int = setting(
        512,
        unit="metrics",
        reason="in force at once; every window may have a column of each",
        ge=1,
        le=10_000,
    )


class TrialSettings(Section):
    """How a policy is tried and judged. All of it is frozen in the plan before a trial starts."""

    alpha: float = setting(
        0.01, unit="probability", reason="chance of a false verdict, each side", gt=0, le=0.2
    )
    guard_alpha: float = setting(
        0.05, unit="probability", reason="chance that a guard passes which should not", gt=0, le=0.2
    )
    max_units: int = setting(
        60, unit="units", reason="then INCONCLUSIVE: two hours of 60 s blocks", ge=1, le=1000
    )
    rarest_loss: float | None = setting(
        None,
        unit="share of units",
        reason="set: IMPROVED only once losses in so few units are excluded: .05 takes 90",
        ge=0.005,
        le=0.5,
    )
    block_s: float = setting(
        60.0, unit="s", reason="at least 3 washouts; longer blocks only take longer", ge=1, le=3600
    )
    washout_s: float | None = setting(
        None,
        unit="s",
        reason="unset = max(2 × effect delay, 2 × p95 residual drain), measured at the start",
        ge=0,
        le=1800,
    )
    cycle_s: float | None = setting(
        None,
        unit="s",
        reason="period of the context a law follows; unset = measured, unknown = INCONCLUSIVE",
        gt=0,
        le=3600,
    )
    min_requests: int = setting(
        30,
        unit="requests",
        reason="a block with fewer says too little to be counted",
        ge=1,
        le=100_000,
    )
    attainment_margin: float = setting(
        0.05,
        unit="share",
        reason="a guard passes when attainment is not this much worse",
        gt=0,
        le=0.5,
    )
    feedback_days: int = setting(
        14,
        unit="days",
        reason="a metric of users' feedback that needs more exposures than come in so long is no"
        " primary metric, and as a guard only harm is looked for",
        ge=1,
        le=365,
    )
    max_error_rate: float = setting(
        0.05, unit="share", reason="hard trip: errors among the candidate's answers", gt=0, le=1
    )
    min_errors: int = setting(
        20, unit="errors", reason="a rate of fewer errors than this trips nothing", ge=1, le=10_000
    )
    trip_ratio: float = setting(
        2.0,
        unit="ratio",
        reason="latency trip: candidate's misses against the baseline's",
        gt=1,
        le=100,
    )
    trip_misses: int = setting(
        30,
        unit="requests",
        reason="latency trip: and at least this many more misses",
        ge=1,
        le=10_000,
    )
    max_trips: int = setting(
        3, unit="trips", reason="so many latency trips make a trial INCONCLUSIVE", ge=1, le=100
    )
    seed: int | None = setting(
        None,
        unit="",
        reason="unset = chance; set, the coins are known beforehand (demonstrations)",
        ge=0,
    )
    law_window_s: float = setting(
        2.0, unit="s", reason="a proposed law looks back this far for arrivals", gt=0, le=600
    )
    law_min_dwell_s: float = setting(
        1.0, unit="s", reason="a proposed law leaves a step no sooner", ge=0, le=600
    )
    budget: BudgetKind = setting(
        "per_day",
        unit="",
        reason="what bounds changes kept by chance: `per_day` so many trials of a scope a day,"
        " `fdr` the share of them among what is kept (many trials, where many succeed)",
    )
    trials_per_day: int = setting(
        4,
        unit="trials",
        reason="per_day: of one scope begun within 24 h, however they end; 4 at α .01 keep .04"
        " useless changes a day at most",
        ge=1,
        le=1000,
    )
    fdr: float = setting(
        0.05,
        unit="share",
        reason="fdr: of the changes that a scope's stream keeps so many may be useless",
        gt=0,
        le=0.2,
    )
    fdr_days: int = setting(
        7,
        unit="days",
        reason="fdr: then a scope's stream begins anew, and the share is promised for it afresh",
        ge=1,
        le=365,
    )
    least_alpha: float = setting(
        1e-4,
        unit="probability",
        reason="fdr: with less left no trial begins, for it takes twice the units of one at .01",
        gt=0,
        le=0.01,
    )
    proposal_ttl_s: int = setting(
        3600, unit="s", reason="a proposal nobody answers expires", ge=1, le=604_800
    )
    approval_ttl_s: int = setting(
        86_400,
        unit="s",
        reason="approved, it waits this long for its turn",
        ge=1,
        le=604_800,
    )
    review_days: int = setting(
        30, unit="days", reason="a kept policy is shown for review after this", ge=1, le=365
    )

    @model_validator(mode="after")
    def _affordable(self) -> TrialSettings:
        if self.least_alpha > self.fdr / 10:
            raise ValueError(
                f"least_alpha {self.least_alpha:g} is more than a tenth of fdr {self.fdr:g}: even"
                " the first trial of a stream would not begin"
            )
        return self

    @property
    def min_units(self) -> int:
        """Units below which no verdict is possible at any effect.

        Each factor exp(l·d)/cosh(l·d) of the judge's E is below 2, so E < 2^n after n units:
        n ≥ log2(1/α). 7 at α = .01, 5 at .05.
        """
        return math.ceil(math.log2(1 / self.alpha))


class SupervisorSettings(Section):
    """`trimtab up`: how child processes are started, watched and stopped."""

    ready_s: int = setting(
        300, unit="s", reason="an engine prepares its weights at the first start", ge=5, le=3600
    )
    stop_s: float = setting(
        8.0, unit="s", reason="after it a child that does not stop is killed", ge=0.5, le=120
    )
    backoff_ms: int = setting(
        250, unit="ms", reason="wait before the first restart; doubles each time", ge=10, le=10_000
    )
    backoff_max_ms: int = setting(
        4000, unit="ms", reason="keeps a crashed stage's return under 10 s", ge=10, le=60_000
    )
    restarts_per_minute: int = setting(
        6,
        unit="restarts",
        reason="a child that crashes oftener waits out the minute, loudly",
        ge=1,
        le=60,
    )
    log_bytes: int = setting(
        10_485_760, unit="bytes", reason="one log file of one child", ge=65_536, le=1_073_741_824
    )
    log_files: int = setting(
        3, unit="files", reason="kept of each child's log, the newest included", ge=1, le=100
    )

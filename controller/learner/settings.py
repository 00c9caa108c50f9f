"""Settings of the learner: how fast it forgets, how much it explores, what it may cost."""

from __future__ import annotations

from typing import Literal

from signals.configuring import Section, setting

Algorithm = Literal[
    "linear_thompson", "linucb", "random_search", "aimd", "gradient_limiter", "formula_only", "off"
]


class LearnerSettings(Section):
    """The learner: memory, exploration, safety budget, stability."""

    algorithm: Algorithm = setting(
        "linear_thompson",
        unit="",
        reason="what proposes for the knobs that a file declares, each within its mode; the last"
        " four before `off` are yardsticks",
    )
    decide_every_s: float = setting(
        300.0,
        unit="s",
        reason="an idle place is decided this often; a trial takes longer, and few are allowed",
        ge=10,
        le=86_400,
    )
    least_gain: float = setting(
        0.02, unit="utility", reason="a change is worth trying from this on", ge=0, le=1
    )
    least_promise: float = setting(
        0.25,
        unit="probability",
        reason="that it gains so much, or it is not tried: a trial takes an hour of the engine's",
        ge=0,
        lt=1,
    )
    worst_sd: float = setting(
        3.0,
        unit="deviations",
        reason="the budget takes utilities to be anywhere within so many of what is expected",
        ge=0,
        le=10,
    )
    max_actions: int = setting(
        64,
        unit="actions",
        reason="on one menu, the nearest to what is in force; bounds what a decision stores",
        ge=3,
        le=1024,
    )
    half_life_s: float = setting(
        86_400.0,
        unit="s",
        reason="an effect a day old counts half: engines are redeployed about so often",
        ge=60,
        le=31_536_000,
    )
    doubt_after_s: float = setting(
        240.0,
        unit="s",
        reason="a drift alarm with signs over so long makes what was judged before doubtful; by"
        " then the plant model, of the last five minutes, is of the engine as it is now",
        ge=0,
        le=86_400,
    )
    old_share: float = setting(
        0.1,
        unit="share",
        reason="of the weight that is left to what was learned of an engine before it changed: most"
        " of it may still be true, and a few units of now must be able to say that it is not",
        ge=0,
        le=1,
    )
    draws: int = setting(
        128,
        unit="draws",
        reason="posterior draws per choice, in pairs; shares then come in steps of 1/128",
        ge=16,
        le=65_536,
    )
    uniform_share: float = setting(
        0.05,
        unit="share",
        reason="mixed in uniformly, so that every allowed action keeps a known chance",
        gt=0,
        le=1,
    )
    noise_sd: float = setting(
        0.1, unit="reward", reason="of one unit's reward; U is within 0..1", gt=0, le=1000
    )
    prior_sd: float = setting(
        0.1,
        unit="reward",
        reason="of one feature's weight before anything is known: what the plant model misses",
        gt=0,
        le=1000,
    )
    max_features: int = setting(
        32, unit="features", reason="a choice costs their square; small stays exact", ge=4, le=128
    )
    least_utility: float = setting(
        0.97, unit="share", reason="of the baseline's utility, over every 24 hours", gt=0, lt=1
    )
    horizon_s: float = setting(
        86_400.0, unit="s", reason="credit older than this is gone", ge=600, le=604_800
    )
    min_unit_s: float = setting(
        10.0, unit="s", reason="shorter units are refused; bounds the ledger", ge=1, le=3600
    )
    dwell_s: float = setting(
        600.0, unit="s", reason="between two changes of a place", ge=0, le=86_400
    )
    reverse_s: float = setting(
        1800.0, unit="s", reason="no change of direction so soon after a change", ge=0, le=86_400
    )
    binding_share: float = setting(
        0.2, unit="share", reason="a limit reached less of the time is not grown", ge=0, le=1
    )
    timeout_share: float = setting(
        0.01, unit="share", reason="of requests; with more timing out nothing grows", ge=0, le=1
    )

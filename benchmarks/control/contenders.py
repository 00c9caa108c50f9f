"""Who lives through a scenario: settings that never move, laws known beforehand, and the loop."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from benchmarks.control.scenarios import LADDER, TOP, Scenario, declared
from benchmarks.control.scoring import attainment, utility
from controller.backtest.backtest import Backtest
from engine.simulated.fleet import Fleet
from policies.laws import Law, LawStep
from policies.policy import Policy
from policies.runtime_config import Patch, SettingChange
from policies.settings import Setting
from signals.events import MICROS

TICK_S = 1.0


class Life(Struct, frozen=True, kw_only=True):
    """How one contender did. ``u`` after adapting, ``u_whole`` over all of it; ``live``: attainment
    of interactive requests after adapting; ``kept``: what the loop kept, in words."""

    contender: str
    u: float
    u_whole: float
    live: float
    kept: tuple[str, ...] = ()
    verdicts: tuple[str, ...] = ()
    kept_late: int = 0


def fixed(scenario: Scenario, name: str, setting: Setting | None, seed: int) -> Life:
    """One setting for life; None: what the engine booted with."""
    fleet = scenario.fleet(seed)
    if setting is not None:
        replica = fleet.replica("r0")
        change = SettingChange(
            knob="active_cap", value=setting.value, law=setting.law, shrink=setting.shrink
        )
        replica.patch(
            Patch(
                change_id="bench.1",
                epoch=1,
                expected=replica.view().expected,
                settings=(change,),
            )
        )
    fleet.run(round(scenario.life_s * MICROS))
    return _life(scenario, name, fleet)


def looped(scenario: Scenario, seed: int) -> Life:
    """The production loop, from boot settings and with nothing known."""
    fleet = scenario.fleet(seed)
    with tempfile.TemporaryDirectory(prefix="trimtab-control-") as folder:
        backtest = Backtest(declared(), fleet, Path(folder), seed=seed, tick_s=TICK_S)
        try:
            backtest.run(scenario.life_s)
            policies = backtest.policies()
        finally:
            backtest.close()
    return _life(scenario, "loop", fleet, policies)


def statics() -> dict[str, Setting]:
    """Every value of the ladder."""
    return {f"static {cap}": Setting(value=cap) for cap in LADDER}


def laws() -> dict[str, Setting]:
    """Every law that the loop could have proposed."""
    return {f"law {cap}": Setting(law=_law(cap), shrink="preempt") for cap in LADDER[:-1]}


def _law(cap: int) -> Law:
    trial = declared().trial
    return Law(
        variable="arrivals",
        class_="interactive",
        window_s=trial.law_window_s,
        default=TOP,
        steps=(LawStep(above=0.0, value=cap),),
        min_dwell_s=trial.law_min_dwell_s,
    )


def _life(scenario: Scenario, name: str, fleet: Fleet, policies: Sequence[Policy] = ()) -> Life:
    reference = TOP / (scenario.step_times.step_us(decode=TOP, prefill=0, context=0) / MICROS)
    end_s, late_s = scenario.life_s, scenario.adapts_s
    kept = [policy for policy in policies if policy.state == "kept"]
    return Life(
        contender=name,
        u=utility(fleet, late_s, end_s, reference=reference),
        u_whole=utility(fleet, 0.0, end_s, reference=reference),
        live=attainment(fleet, "live", late_s, end_s),
        kept=tuple(policy.words() for policy in kept),
        verdicts=tuple(policy.verdict for policy in policies if policy.verdict is not None),
        kept_late=sum(policy.updated_us > late_s * MICROS for policy in kept),
    )

"""The loop's own action set, and how a contender without a controller puts one of it in force."""

from __future__ import annotations

from benchmarks.control.scenario import REPLICA, Scenario, declared
from engine.knobs import ACTIVE_CAP
from engine.simulated.fleet import Fleet
from policies.laws import Law, LawStep
from policies.runtime_config import Patch, SettingChange
from policies.settings import Setting

DEFAULT = "default"


def fixed(scenario: Scenario) -> dict[str, Setting | None]:
    """Every setting and law that the loop could propose, by contender; None: as booted."""
    found: dict[str, Setting | None] = {DEFAULT: None}
    found |= {f"static {value}": Setting(value=value) for value in scenario.ladder}
    if scenario.knob == ACTIVE_CAP:
        found |= {f"law {value}": _law(scenario, value) for value in scenario.ladder[:-1]}
    return found


def put(fleet: Fleet, knob: str, setting: Setting | None) -> None:
    """Give the engine a setting, as a person would; None: what it booted with."""
    replica = fleet.replica(REPLICA)
    now = replica.view().setting(knob)
    if setting is None:
        change = SettingChange(knob=knob)
    elif now is not None and now.law is None and now.value == setting.value:
        return
    else:
        change = SettingChange(
            knob=knob, value=setting.value, law=setting.law, shrink=setting.shrink
        )
    replica.patch(
        Patch(
            change_id=f"bench.{fleet.now_us}",
            epoch=1,
            expected=replica.view().expected,
            settings=(change,),
        )
    )


def _law(scenario: Scenario, cap: int) -> Setting:
    trial = declared(scenario.target).trial
    law = Law(
        variable="arrivals",
        class_="interactive",
        window_s=trial.law_window_s,
        default=scenario.ladder[-1],
        steps=(LawStep(above=0.0, value=cap),),
        min_dwell_s=trial.law_min_dwell_s,
    )
    return Setting(law=law, shrink="preempt")

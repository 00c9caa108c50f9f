"""The smallest turn of the loop: wish, PATCH, read-back, a law that moves, and the way back.

No process, no network, no clock: what decides is plain functions of what is passed in. Run it with
``.venv/bin/python -m examples.01_minimal``.
"""

from __future__ import annotations

from controller.desired import Desired
from controller.reconciler import plan_patch
from engine.knobs import embedded_knobs
from engine.metering import ArrivalMeter
from engine.settings_book import SettingsBook
from engine.settings_in_force import EngineIdentity, Instant
from policies.laws import Law, LawStep
from policies.settings import Layer, Setting, effective

BASELINE = {"active_cap": Setting(value=16)}
LAW = Law(
    variable="arrivals",
    class_="interactive",
    window_s=2.0,
    default=64,
    steps=(LawStep(above=0, value=8),),
)


def at(seconds: float) -> Instant:
    """A moment, for an engine whose clocks both started at 0."""
    return Instant(mono_s=seconds, wall_s=seconds)


def main() -> None:
    """Put a law over the baseline at 3 s, let a chat arrive at 5 s, take the law out at 9 s."""
    meter = ArrivalMeter(classes=("interactive", "batch"))
    knobs = embedded_knobs(
        capacity_active=64, capacity_budget=512, boot_active_cap=None, boot_step_token_budget=None
    )
    who = EngineIdentity(target="chat", replica="chat0", incarnation="a1")
    engine = SettingsBook(who, knobs, meter, meter.classes, remembered=16, now=at(0))
    policy = Layer(knob="active_cap", setting=Setting(law=LAW), policy_id="pol_1")

    for second in range(1, 11):
        layers = [policy] if 3 <= second < 9 else []
        wish = Desired(settings=effective(BASELINE, layers))
        patch = plan_patch(
            wish, engine.view(at(second)), epoch=1, change_id=f"c{second}", now_us=second * 10**6
        )
        if patch is not None:
            engine.apply(patch, at(second))
        if second == 5:
            meter.note("interactive", tokens=200, now_s=5.0)
        engine.pass_time(at(second))
        cap = engine.view(at(second)).setting("active_cap")
        if cap is not None:
            print(f"{second:3} s  active_cap {cap.value:2}, by {cap.policy_id or 'the baseline'}")

    print("the engine's change log:")
    for change in engine.log.since(0):
        print(f"  {change.seq}  {change.cause:6} {change.knob} {change.before} → {change.after}")


if __name__ == "__main__":
    main()

"""Whether an engine would take a setting, asked before anybody says that it is set."""

from __future__ import annotations

from engine.generation import CLASSES
from policies import laws
from policies.knobs import KnobSpec
from policies.settings import Setting
from signals.errors import Rejected


def check_setting(spec: KnobSpec, setting: Setting, *, at: str = "") -> None:
    """Raise ``Rejected`` for what the engine would refuse, naming what it takes.

    ``at``: what a refusal's field begins with.
    """
    if (setting.value is None) == (setting.law is None):
        raise Rejected("give a value or a law, not both", field=f"{at}setting")
    if setting.shrink == "preempt" and spec.capability != "drain":
        raise Rejected(
            f"{spec.name} has nothing to preempt",
            field=f"{at}shrink",
            value=setting.shrink,
            allowed=("drain",),
        )
    if setting.law is not None:
        laws.check(
            setting.law, lambda value, field: spec.check(value, field=field), field=f"{at}law"
        )
        if setting.law.class_ not in (None, *CLASSES):
            raise Rejected(
                f"no class {setting.law.class_!r}",
                field=f"{at}law.class",
                value=setting.law.class_,
                allowed=CLASSES,
            )
    elif setting.value is not None:
        spec.check(setting.value, field=f"{at}value")

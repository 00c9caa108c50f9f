"""What an operator's act wishes of the engines: from the store, from memory, or from the engines.

The best source that answers in time counts: what was kept, as the store has it; else as the loop
read it last; else the engine's own word, whose expiring settings each name the layer below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from controller.desired import Desired, desired
from controller.following import said_by
from controller.latch import Latched
from controller.state import Declared
from policies.overrides import FORCED, Override
from policies.policy import Policy
from policies.runtime_config import ObservedSetting, RuntimeConfig
from policies.settings import Effective, Setting, place


class Lower(Struct, frozen=True, kw_only=True):
    """What a wish is folded from, but for the trial. ``baseline`` by place."""

    baseline: Mapping[str, Setting]
    policies: Sequence[Policy]
    overrides: Sequence[Override]


def unknown(target: str) -> Lower | None:
    """Of a target that no loop has read yet."""
    del target
    return None


def known_wish(
    declared: Declared, lower: Lower, latched: Latched | None, *, now_us: int
) -> Desired:
    """From what is known of the layers below the trial. Under a hold the arm stays where it is."""
    return desired(
        lower.baseline,
        lower.policies,
        None,
        said_by(latched, declared.name),
        lower.overrides,
        on_kill=declared.target.on_kill,
        now_us=now_us,
    )


def blind_wish(declared: Declared, latched: Latched | None, seen: RuntimeConfig) -> Desired:
    """When nobody can say what was kept: by what this engine itself shows.

    A hold and a release leave settings alone. A kill goes to the declared baseline, or to what the
    engine would have once everything that expires has expired; what is forced stands.
    """
    if latched is None:
        return Desired(settings={}, left_alone=all_places(seen))
    if latched.state == "held" or declared.target.on_kill == "hold":
        return Desired(settings={}, hold=True)
    if declared.target.on_kill == "baseline":
        plain, forced = declared.target.baseline_settings(), _forced(seen)
        wished = {at: Effective(setting=one) for at, one in plain.items() if at not in forced}
        return Desired(settings=wished, left_alone=forced)
    return last_stable(seen)


def last_stable(seen: RuntimeConfig) -> Desired:
    """What an engine would have once all that expires has expired; what is forced stands."""
    forced = _forced(seen)
    return Desired(
        settings={
            place(s.knob, s.scope): _stable(s)
            for s in seen.settings
            if _is_set(s) and place(s.knob, s.scope) not in forced
        },
        left_alone=forced,
    )


def all_places(seen: RuntimeConfig) -> tuple[str, ...]:
    """Every place that an engine offers."""
    return tuple(place(spec.name, scope) for spec in seen.knobs for scope in spec.scopes)


def _forced(seen: RuntimeConfig) -> tuple[str, ...]:
    """Places that a person forced: their ids say so, whoever can or can't be asked."""
    return tuple(
        place(s.knob, s.scope)
        for s in seen.settings
        if s.policy_id is not None and s.policy_id.startswith(FORCED)
    )


def _is_set(now: ObservedSetting) -> bool:
    below = now.fallback
    expires = now.expires_in_s is not None
    return not expires or (below is not None and (below.value is not None or below.law is not None))


def _stable(now: ObservedSetting) -> Effective:
    below = now.fallback
    if now.expires_in_s is None or below is None:
        value = None if now.law is not None else now.value
        return Effective(
            setting=Setting(value=value, law=now.law, shrink=now.shrink), policy_id=now.policy_id
        )
    return Effective(setting=Setting(value=below.value, law=below.law), policy_id=below.policy_id)

"""What a scope has: settings, how layers fold into effective ones, and their digest.

``baseline ⊕ kept layers ⊕ emergency ⊕ trial arm``: later layers win, knob by knob. The way back
from a layer is to fold without it, never to write an old value.

>>> effective({"active_cap": Setting(value=8)}, [Layer(knob="active_cap",
...           setting=Setting(value=16), policy_id="p1")])["active_cap"].setting.value
16
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec
from msgspec import Struct

from policies.laws import Law
from policies.runtime_config import Shrink

Record = TypeVar("Record", bound=Struct)


class Setting(Struct, frozen=True, kw_only=True):
    """A knob's value, or the law that moves it. Exactly one of the two is set."""

    value: int | None = None
    law: Law | None = None
    shrink: Shrink = "drain"

    def words(self) -> str:
        """The setting in a few words, for reasons and tables."""
        if self.law is None:
            return str(self.value)
        law, whose = self.law, f"{self.law.class_} " if self.law.class_ else ""
        steps = ", ".join(f"{step.value} above {step.above:g}" for step in law.steps)
        return f"{steps} {whose}{law.variable} in {law.window_s:g} s, else {law.default}"


class Layer(Struct, frozen=True, kw_only=True):
    """One policy's hold on one knob. ``expires_us`` None: until reverted."""

    knob: str
    setting: Setting
    policy_id: str
    expires_us: int | None = None


class Effective(Struct, frozen=True, kw_only=True):
    """A knob's outcome: the setting, who made it, and what is there when it expires."""

    setting: Setting
    policy_id: str | None = None
    expires_us: int | None = None
    below: Effective | None = None


def effective(baseline: Mapping[str, Setting], layers: Iterable[Layer]) -> dict[str, Effective]:
    """Fold layers, lowest first, over the baseline. Pure; knobs without any setting are absent."""
    folded = {knob: Effective(setting=setting) for knob, setting in baseline.items()}
    for layer in layers:
        folded[layer.knob] = Effective(
            setting=layer.setting,
            policy_id=layer.policy_id,
            expires_us=layer.expires_us,
            below=folded.get(layer.knob),
        )
    return folded


def digest(settings: Mapping[str, Setting]) -> str:
    """12 hex digits of the settings' canonical JSON: equal settings, equal digest, anywhere."""
    plain = {knob: msgspec.to_builtins(typed(setting)) for knob, setting in settings.items()}
    return hashlib.sha256(msgspec.json.encode(plain, order="sorted")).hexdigest()[:12]


def typed(record: Record) -> Record:
    """The record as it would come back from the wire: 0 becomes 0.0 where its type says float.

    The two are equal and their JSON is not, so whatever is hashed is typed first.
    """
    return msgspec.convert(msgspec.to_builtins(record), type(record))

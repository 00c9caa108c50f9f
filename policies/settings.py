"""What a scope has: settings, how layers fold into effective ones, and their digest.

``baseline ⊕ kept ⊕ emergency ⊕ trial arm ⊕ pin ⊕ kill ⊕ force``: later layers win, place by place.
A place is a knob at a scope: ``active_cap`` for the whole target, ``active_cap@live`` for one
intent; an intent's own setting is over the target's, for what is kept must be what was tried. Only
a person's word on the whole target, a pin or a force, covers the intents too. The way back from a
layer is to fold without it, never to write an old value. A kill is a cut, not a value: it takes
layers away (``standing``).

>>> effective({"active_cap": Setting(value=8)}, [Layer(knob="active_cap",
...           setting=Setting(value=16), policy_id="p1")])["active_cap"].setting.value
16
>>> place("active_cap", "live"), split("active_cap@live")
('active_cap@live', ('active_cap', 'live'))
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final, Literal, TypeVar

import msgspec
from msgspec import Struct

from policies.knobs import TARGET_SCOPE
from policies.laws import Law
from policies.runtime_config import Shrink

Record = TypeVar("Record", bound=Struct)

LayerKind = Literal["kept", "emergency", "arm", "pin", "force"]
RANK: Final[dict[LayerKind, int]] = {
    "kept": 0,
    "emergency": 1,
    "arm": 2,
    "pin": 3,
    "force": 4,
}
"""Which layer wins. The baseline is below all of them; a kill cuts between pin and force."""

OnKill = Literal["hold", "last_stable", "baseline"]
STANDS: Final[dict[OnKill, frozenset[LayerKind]]] = {
    "hold": frozenset({"force"}),
    "last_stable": frozenset({"kept", "force"}),
    "baseline": frozenset({"force"}),
}
"""What a kill leaves standing over the baseline. Under ``hold`` the engine keeps what it has."""

COVERS_INTENTS: Final[frozenset[LayerKind]] = frozenset({"pin", "force"})


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
    """One policy's or override's hold on one place. ``expires_us`` None: until taken away.

    ``policy_id`` is an override's id where a person set it.
    """

    knob: str
    scope: str = TARGET_SCOPE
    setting: Setting
    policy_id: str
    kind: LayerKind = "kept"
    expires_us: int | None = None


class Effective(Struct, frozen=True, kw_only=True):
    """A place's outcome: the setting, who made it, and what is there when it expires."""

    setting: Setting
    kind: LayerKind | None = None
    policy_id: str | None = None
    expires_us: int | None = None
    below: Effective | None = None


def effective(baseline: Mapping[str, Setting], layers: Iterable[Layer]) -> dict[str, Effective]:
    """Fold layers over the baseline, by rank and then in the order given. Pure.

    ``baseline``: by place. Places without any setting are absent. Of one rank, the target's layers
    come before the intents'.
    """
    folded = {at: Effective(setting=setting) for at, setting in baseline.items()}
    for layer in sorted(layers, key=_order):
        for at in _places(layer, folded):
            folded[at] = Effective(
                setting=layer.setting,
                kind=layer.kind,
                policy_id=layer.policy_id,
                expires_us=layer.expires_us,
                below=folded.get(at),
            )
    return folded


def standing(layers: Iterable[Layer], on_kill: OnKill) -> list[Layer]:
    """The layers that a kill leaves: pins fall, forces stand."""
    return [layer for layer in layers if layer.kind in STANDS[on_kill]]


def lasting(found: Effective | None) -> Effective | None:
    """The topmost layer that does not expire: where the engine may go without anybody's help."""
    while found is not None and found.expires_us is not None:
        found = found.below
    return found


def _order(layer: Layer) -> tuple[int, bool]:
    return RANK[layer.kind], layer.scope != TARGET_SCOPE


def _places(layer: Layer, folded: Mapping[str, Effective]) -> list[str]:
    """Where a layer comes to lie: its own place, and the intents' that a person's word covers."""
    own = place(layer.knob, layer.scope)
    if layer.scope != TARGET_SCOPE or layer.kind not in COVERS_INTENTS:
        return [own]
    return [own, *(at for at in folded if at != own and split(at)[0] == layer.knob)]


def place(knob: str, scope: str) -> str:
    """``knob`` for the whole target, ``knob@intent`` for an intent; names hold no ``@``."""
    return knob if scope == TARGET_SCOPE else f"{knob}@{scope}"


def split(at: str) -> tuple[str, str]:
    """(knob, scope) of a place."""
    knob, _, scope = at.partition("@")
    return knob, scope or TARGET_SCOPE


def setting_for(folded: Mapping[str, Effective], knob: str, intent: str) -> Effective | None:
    """What requests of an intent get: the intent's own setting, else the target's."""
    return folded.get(place(knob, intent), folded.get(knob))


def digest(settings: Mapping[str, Setting]) -> str:
    """12 hex digits of the settings' canonical JSON: equal settings, equal digest, anywhere."""
    plain = {knob: msgspec.to_builtins(typed(setting)) for knob, setting in settings.items()}
    return hashlib.sha256(msgspec.json.encode(plain, order="sorted")).hexdigest()[:12]


def typed(record: Record) -> Record:
    """The record as it would come back from the wire: 0 becomes 0.0 where its type says float.

    The two are equal and their JSON is not, so whatever is hashed is typed first.
    """
    return msgspec.convert(msgspec.to_builtins(record), type(record))

"""What an engine is: what was learned on another one is a prior at most.

A *fingerprint* is hardware, engine version, model, quantisation and flags; its key is a digest of
the five. Evidence is kept under the key it was measured under. Where it differs, some of it may
still be carried over, at the weight ``plant.foreign_weight``, and the rest not at all:

============== ===== ======== ====
differs        curve residual wall
============== ===== ======== ====
hardware       shape no       no
engine version shape weighed  no
model          no    no       no
quantisation   no    no       no
flags          shape weighed  no
unknown parts  no    no       no
============== ===== ======== ====

*shape*: scaled to the speed seen now, as the curve measured at boot is. The wall is never carried:
it is where memory ended on that engine with that layout. Attainment, effects of policies and tested
values belong to the loads they were seen under, and are treated like the residual.

>>> old = Fingerprint(hardware="h200", engine="0.9", model="m", quantisation="bf16", flags=("a",))
>>> new = msgspec.structs.replace(old, engine="0.10")
>>> carried(old, now=new).words()
'measured on engine 0.9, not 0.10: its curve keeps its shape, its residual a quarter of its weight'
>>> carried(old, now=old).words()
''

Why not distances between fingerprints: nobody knows how far bf16 is from int8, and a figure that
nobody measured would decide what is dared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final, Literal

import msgspec
from msgspec import Struct

from controller.plant.residual import Measured
from controller.plant.settings import PlantSettings

Part = Literal["hardware", "engine", "model", "quantisation", "flags"]
PARTS: Final[tuple[Part, ...]] = ("hardware", "engine", "model", "quantisation", "flags")
KEEPS_SHAPE: Final[frozenset[Part]] = frozenset({"hardware", "engine", "flags"})
KEEPS_RESIDUAL: Final[frozenset[Part]] = frozenset({"engine", "flags"})


class Fingerprint(Struct, frozen=True, kw_only=True):
    """The five parts; "" is unknown. Order of ``flags`` does not matter."""

    hardware: str = ""
    engine: str = ""
    model: str = ""
    quantisation: str = ""
    flags: tuple[str, ...] = ()

    @classmethod
    def read(cls, text: str) -> Fingerprint:
        """What an engine says of itself on one line: ``model/weights/numeric class``.

        The numeric class is kept as quantisation; the rest of it is unknown. What is no such line
        is a model by that name.
        """
        name, _, rest = text.partition("/")
        weights, _, numeric = rest.partition("/")
        model = f"{name}/{weights}" if weights else name
        return cls(model=model, quantisation=numeric)

    @property
    def key(self) -> str:
        """16 hexadecimal digits; equal for equal parts only."""
        parts = [self.hardware, self.engine, self.model, self.quantisation, *sorted(self.flags)]
        return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:16]

    def part(self, name: Part) -> str:
        """One part as text."""
        return " ".join(sorted(self.flags)) if name == "flags" else str(getattr(self, name))


class Carried(Struct, frozen=True, kw_only=True):
    """What of the evidence under another fingerprint may count. ``weight`` 1: it is the same."""

    differs: tuple[tuple[Part, str, str], ...] = ()
    shape: bool = True
    weight: float = 1.0

    @property
    def same(self) -> bool:
        """Whether it is the engine that runs now."""
        return not self.differs

    def words(self) -> str:
        """What differs and what that leaves; empty where nothing does."""
        if self.same:
            return ""
        what = ", ".join(
            f"{part} {old or '?'}, not {new or '?'}" for part, old, new in self.differs
        )
        shape = "its curve keeps its shape" if self.shape else "its curve does not count"
        if not self.weight:
            return f"measured on {what}: {shape}, its residual does not count"
        share = "a quarter" if self.weight == 0.25 else f"{self.weight:.0%}"
        return f"measured on {what}: {shape}, its residual {share} of its weight"


def carried(kept: Fingerprint, *, now: Fingerprint, model: PlantSettings | None = None) -> Carried:
    """What may be used of what was learned under ``kept`` on the engine that is there now.

    Unknown on both sides and otherwise equal is the same engine: more can't be told.
    """
    differs = tuple(
        (name, kept.part(name), now.part(name))
        for name in PARTS
        if kept.part(name) != now.part(name)
    )
    if not differs:
        return Carried()
    names = {name for name, _, _ in differs}
    unknown = any(not old or not new for name, old, new in differs if name != "flags")
    weight = (model or PlantSettings()).foreign_weight
    return Carried(
        differs=differs,
        shape=names <= KEEPS_SHAPE and not unknown,
        weight=weight if names <= KEEPS_RESIDUAL and not unknown else 0.0,
    )


def weighed(
    measured: Iterable[Measured], *, now: Fingerprint, model: PlantSettings
) -> tuple[Measured, ...]:
    """Measurements with the weight that the present engine gives them; those without are left out.

    Each one's ``fingerprint`` is the line that its engine said (see ``Fingerprint.read``).
    """
    found = []
    for one in measured:
        share = carried(Fingerprint.read(one.fingerprint), now=now, model=model).weight
        if share > 0:
            found.append(msgspec.structs.replace(one, weight=one.weight * share))
    return tuple(found)

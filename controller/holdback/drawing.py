"""A holdback: of every so many blocks one, drawn by chance, is spent on the baseline.

::

    stratum 0                       stratum 1                       m = 1 / share
    ┌────┬────┬────┬────┬────┐      ┌────┬────┬────┬────┬────┐
    │ n  │ n  │ B  │ n  │ n  │      │ B  │ n  │ n  │ n  │ n  │ …    n: as usual, all that is kept
    └────┴────┴────┴────┴────┘      └────┴────┴────┴────┴────┘      B: the baseline
    d = mean of its n − B           d = mean of its n − B

A stratum is m blocks one after the other. Which of them is the baseline's is drawn from the plan's
seed and the stratum's index alone, so that anybody can draw it again from the audit. Every block is
stamped, also those in which nothing is held back (arm ``candidate``: what is kept, against the
baseline), so that both are counted in the same way, over blocks of one length. All replicas of a
target move together, and a block goes by the first one, as in a switchback.

Why a draw within strata and not a coin for each block: with a share of 5 % a coin leaves hours
without a block, and days with two beside each other.

>>> [arm_of(7, index, 4) for index in range(8)].count("baseline")
2
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import Struct

from controller.config.targets import HoldbackSettings
from controller.trials import Block, IntentPlan
from policies.runtime_config import Arm, TrialStamp
from policies.settings import Setting
from signals.events import MICROS

NOTE: Final = "holdback"
PREFIX: Final = "hbk"
"""Of a holdback's ids, which stand in stamps where a trial's would."""


class HoldbackPlan(Struct, frozen=True, kw_only=True):
    """FROZEN for a week: what its blocks are, and what U is made of. Times in seconds.

    ``per_stratum``: m. ``declared``: digest of the declarations that it was made from; with others
    it is made anew. The rest as in ``TrialPlan``.
    """

    id: str
    target: str
    seed: int
    per_stratum: int
    block_s: float
    washout_s: float
    min_requests: int
    maximize: str
    reference_tokens_per_s: float
    intents: tuple[IntentPlan, ...]
    declared: str
    frozen_us: int


class HeldBlock(Struct, frozen=True, kw_only=True):
    """One block and what it showed. ``lifted``: why the baseline was left before its end.

    A lifted block still counts by what was drawn: whatever happened in it may be the baseline's
    doing. ``incarnation``: of the engine that it is of. ``ended_seen_us``: when somebody noticed
    that it was over. ``values`` None: not known yet.
    """

    block: Block
    incarnation: str
    ended_seen_us: int = 0
    lifted: str | None = None
    values: dict[str, float] | None = None

    @property
    def settled(self) -> bool:
        """Whether nothing more comes of it."""
        return self.values is not None or self.block.void is not None


class Holdback(Struct, frozen=True, kw_only=True):
    """A holdback that goes on. ``blocks``: by index, of strata that are not told yet.

    ``settings``: by place, what the open block puts in place of what is kept. ``rests_us``: until
    then none is opened, for a person has just ended one.
    """

    plan: HoldbackPlan
    blocks: tuple[HeldBlock, ...] = ()
    next_index: int = 0
    settings: dict[str, Setting] = {}
    rests_us: int = 0

    @property
    def open(self) -> HeldBlock | None:
        """The block that has not ended."""
        last = self.blocks[-1] if self.blocks else None
        return last if last is not None and last.block.ended_us is None else None


def arm_of(seed: int, index: int, per_stratum: int) -> Arm:
    """What was drawn for a block, by its index."""
    stratum, position = divmod(index, per_stratum)
    drawn = hashlib.sha256(f"{seed}:holdback:{stratum}".encode()).digest()[:8]
    held = int.from_bytes(drawn, "big") % per_stratum
    return "baseline" if position == held else "candidate"


def is_holdback(id_: str) -> bool:
    """Whether an id in a stamp, or of a setting's maker, is a holdback's."""
    return id_.startswith(f"{PREFIX}_")


def stamp_of(plan: HoldbackPlan, block: Block) -> TrialStamp:
    """What requests that arrive in a block carry."""
    return TrialStamp(id=plan.id, block=block.index, arm=block.arm)


def ends_us(plan: HoldbackPlan, block: Block) -> int | None:
    """When a block is over, in the engine's time; None before it has begun."""
    if block.began_us is None:
        return None
    return block.began_us + round(plan.block_s * MICROS)


def holdback_of(noted: Mapping[str, str]) -> Holdback | None:
    """The one that goes on, as noted."""
    text = noted.get(NOTE)
    return None if text is None else _decoded(text)


@lru_cache(maxsize=64)
def _decoded(text: str) -> Holdback:
    return msgspec.json.decode(text, type=Holdback)


def encoded(found: Holdback) -> str:
    """As it is noted."""
    return msgspec.json.encode(found, order="sorted").decode()


def left_s(noted: Mapping[str, str], now_us: int) -> float:
    """Until the open block is over, in seconds; 0 without one."""
    found = holdback_of(noted)
    if found is None or found.open is None:
        return 0.0
    began_us = found.open.block.began_us or now_us
    return max(1.0, (began_us - now_us) / MICROS + found.plan.block_s)


def strata_of(share: float) -> int:
    """How many blocks a stratum has for one of them to be the share.

    >>> strata_of(0.05), strata_of(0.4)
    (20, 2)
    """
    return max(2, round(1 / share))


def digest_of(declared: HoldbackSettings, *parts: object) -> str:
    """Names the declarations that a plan is made from."""
    said = (declared.share, declared.block_s, *parts)
    return hashlib.sha256(msgspec.json.encode(said, order="sorted")).hexdigest()[:12]

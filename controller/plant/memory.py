"""The memory of an engine as a wall in predicted bytes.

A token keeps 2 · layers · kv_heads · head_dim · bits / 8 bytes, in whole blocks; so ``cap``
sequences of a context take::

    predicted = cap · ⌈context / block_tokens⌉ · block_bytes

The *wall* is the pool, or the lowest prediction that ever exhausted memory, whichever is lower. It
never rises until the layout or the engine's version changes. What may be used is less: a *margin*
below the wall, wide right after an exhaustion and narrower with time (half-life), never nothing::

    margin = least + (after − least) · 2^(−age / half_life)

Requests that died with their engine were short ones, so right after an exhaustion the contexts
seen are too short, and a cap computed from them would come out *higher* than the one that failed.
The context that exhausted memory therefore stays a lower bound of the one predicted with, fading
with the same half-life.

>>> layout = KvLayout(
...     layers=30, kv_heads=3, head_dim=64, value_bits=16, block_tokens=16, blocks=2048
... )
>>> wall = Wall.of(layout, version="1")
>>> predicted_bytes(layout, cap=32, context_tokens=500) / wall.bytes
0.5
>>> wall.highest_cap((16, 32, 64), context_tokens=500, now_us=0, model=PlantSettings())
32
>>> hit = wall.exhausted(cap=32, context_tokens=500, now_us=0)
>>> hit.highest_cap((16, 32, 64), context_tokens=100, now_us=0, model=PlantSettings())
16

Why not a margin that grows with each exhaustion and a wall that is forgotten: memory does not
grow back, and a limit that is found again by running into it kills requests each time.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from controller.plant.settings import PlantSettings
from signals.events import MICROS, KvLayout


class Wall(Struct, frozen=True, kw_only=True):
    """Where memory ends, in predicted bytes. ``version``: of the engine that it was seen on.

    ``exhausted_*`` describe the exhaustions so far: the lowest prediction, the longest context,
    the last time. None or 0: there was none.
    """

    layout: KvLayout
    version: str
    pool_bytes: int
    exhausted_bytes: int | None = None
    exhausted_context: float = 0.0
    exhausted_us: int = 0

    @classmethod
    def of(
        cls,
        layout: KvLayout,
        *,
        version: str,
        device_bytes: int | None = None,
        taken_bytes: int = 0,
    ) -> Wall:
        """The wall of an engine that was never exhausted.

        ``device_bytes``: memory that pool, weights and reserve share, ``taken_bytes`` of it by the
        latter two. None: the pool is there already, and only it counts.
        """
        pool = layout.blocks * block_bytes(layout)
        if device_bytes is not None:
            pool = min(pool, max(0, device_bytes - taken_bytes))
        return cls(layout=layout, version=version, pool_bytes=pool)

    @property
    def bytes(self) -> int:
        """The wall: never above a prediction that exhausted memory."""
        if self.exhausted_bytes is None:
            return self.pool_bytes
        return min(self.pool_bytes, self.exhausted_bytes)

    def on(self, layout: KvLayout, *, version: str) -> Wall:
        """The wall for what the engine is now: this one, or a new one where it has changed."""
        same = (self.layout, self.version) == (layout, version)
        return self if same else Wall.of(layout, version=version)

    def exhausted(self, *, cap: int, context_tokens: float, now_us: int) -> Wall:
        """The wall after memory was exhausted at that cap. It may only come closer."""
        at = predicted_bytes(self.layout, cap=cap, context_tokens=context_tokens)
        return msgspec.structs.replace(
            self,
            exhausted_bytes=min(at, self.bytes),
            exhausted_context=max(context_tokens, self.exhausted_context),
            exhausted_us=max(now_us, self.exhausted_us),
        )

    def margin(self, now_us: int, model: PlantSettings) -> float:
        """Share of the wall that stays free now."""
        least = model.memory_margin
        after = max(least, model.memory_margin_after)
        return least + (after - least) * self._fading(now_us, model)

    def allowed_bytes(self, now_us: int, model: PlantSettings) -> int:
        """The highest prediction that is admitted now, always below the wall."""
        return min(self.bytes - 1, int(self.bytes * (1.0 - self.margin(now_us, model))))

    def context(self, seen_tokens: float, now_us: int, model: PlantSettings) -> float:
        """The context to predict with: the one seen, or what is left of the one that exhausted."""
        excess = max(0.0, self.exhausted_context - seen_tokens)
        return seen_tokens + excess * self._fading(now_us, model)

    def needed_bytes(
        self, cap: int, *, context_tokens: float, now_us: int, model: PlantSettings
    ) -> int:
        """What a cap is predicted to take now."""
        context = self.context(context_tokens, now_us, model)
        return predicted_bytes(self.layout, cap=cap, context_tokens=context)

    def highest_cap(
        self, ladder: Sequence[int], *, context_tokens: float, now_us: int, model: PlantSettings
    ) -> int | None:
        """The largest of the values whose prediction is admitted; None when none is."""
        allowed = self.allowed_bytes(now_us, model)
        within = [
            cap
            for cap in ladder
            if self.needed_bytes(cap, context_tokens=context_tokens, now_us=now_us, model=model)
            <= allowed
        ]
        return max(within, default=None)

    def refusal(self, cap: int, *, context_tokens: float, now_us: int, model: PlantSettings) -> str:
        """Why a cap is not admitted, in words; empty when it is."""
        needed = self.needed_bytes(cap, context_tokens=context_tokens, now_us=now_us, model=model)
        allowed = self.allowed_bytes(now_us, model)
        if needed <= allowed:
            return ""
        whole = self.context(context_tokens, now_us, model)
        met = "" if self.exhausted_bytes is None else ", where memory was exhausted before"
        return (
            f"{cap} sequences of {whole:.0f} tokens would take {_mib(needed)} of KV memory; "
            f"{_mib(allowed)} is allowed, {self.margin(now_us, model):.0%} below the wall at "
            f"{_mib(self.bytes)}{met}"
        )

    def _fading(self, now_us: int, model: PlantSettings) -> float:
        """1 at an exhaustion, ½ a half-life later; 0 without one."""
        if self.exhausted_bytes is None:
            return 0.0
        age_s = max(0, now_us - self.exhausted_us) / MICROS
        return float(2.0 ** -(age_s / model.memory_half_life_s))


def block_bytes(layout: KvLayout) -> int:
    """Bytes of one block, rounded up."""
    values = 2 * layout.layers * layout.kv_heads * layout.head_dim * layout.block_tokens
    return -(-values * layout.value_bits // 8)


def predicted_bytes(layout: KvLayout, *, cap: int, context_tokens: float) -> int:
    """What ``cap`` sequences of a context take: whole blocks, at least one each."""
    blocks = max(1, -int(-context_tokens // layout.block_tokens))
    return cap * blocks * block_bytes(layout)


def _mib(size: int) -> str:
    return f"{size / 2**20:.0f} MiB"

"""The engines of a target, as the controller last saw them, and how a wish is brought to them.

One replica a target in this version; the names leave room for more. Thread-safe: the loop and the
operator's kill may act at the same time, and the engine's ``expected`` decides who was first.
"""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Callable

import msgspec
from msgspec import Struct

from controller.desired import Desired
from controller.latch import Latch, Latched
from controller.reconciler import differs, plan_patch
from policies.actuator import Actuator
from policies.runtime_config import RuntimeConfig
from signals.errors import Broken, Conflict, Rejected, Unavailable

TRIES = 3
AS_WISHED = "as wished"
REMEMBERED_CHANGES = 128
"""Of one incarnation's change log; the engine itself keeps more."""


class Reached(Struct, frozen=True, kw_only=True):
    """What became of a wish at one replica. ``ok``: read back as wished."""

    replica: str
    url: str
    ok: bool
    detail: str
    took_ms: float


class Replica:
    """One engine: its actuator, and what it last showed."""

    def __init__(
        self, url: str, actuator: Actuator, *, ours: str, epoch: int, mono: Callable[[], float]
    ) -> None:
        self.url = url
        self.seen: RuntimeConfig | None = None
        self.problem: str | None = None
        self._actuator = actuator
        self._mono = mono
        self._epoch = epoch
        self._ids = (f"{ours}{epoch}.{n}" for n in itertools.count())
        self._lock = threading.Lock()
        self._read_at_s = float("-inf")

    @property
    def name(self) -> str:
        """The replica's own name once seen, its address until then."""
        return self.url if self.seen is None else self.seen.replica

    def read(self, *, max_age_s: float = 0.0) -> RuntimeConfig | None:
        """Read back, unless a look this young is at hand. None: not reachable now."""
        with self._lock:
            if self._mono() - self._read_at_s > max_age_s:
                self._read()
            return self.seen if self.problem is None else None

    def bring(
        self, wish: Desired, *, now_us: int, unless: Callable[[], bool], after: RuntimeConfig | None
    ) -> Reached:
        """PATCH until the engine shows the wish, at most ``TRIES`` times.

        ``unless`` is asked right before each PATCH: the latch may have moved meanwhile. ``after``:
        what the wish was made from; once the engine shows something newer, which may be somebody's
        change, nothing is sent. An operator's wish (None) stands whatever the engine shows.
        """
        began_s = self._mono()
        with self._lock:
            detail = self._bring(wish, now_us, unless, after)
        took_ms = (self._mono() - began_s) * 1000
        ok = detail == AS_WISHED
        return Reached(
            replica=self.name, url=self.url, ok=ok, detail=detail, took_ms=round(took_ms, 1)
        )

    def _bring(
        self,
        wish: Desired,
        now_us: int,
        unless: Callable[[], bool],
        after: RuntimeConfig | None,
    ) -> str:
        detail = AS_WISHED
        if after is None:
            self._read()
        for _ in range(TRIES):
            if self.seen is None or self.problem is not None:
                return f"unreachable: {self.problem}"
            if not differs(wish, self.seen):
                return AS_WISHED
            if after is not None and self.seen is not after:
                return detail if detail != AS_WISHED else "moved on; looked at again first"
            if unless():
                return "the latch moved"
            detail = self._patch(wish, self.seen, now_us)
        if self.seen is not None and self.problem is None and not differs(wish, self.seen):
            return AS_WISHED
        return detail

    def _patch(self, wish: Desired, seen: RuntimeConfig, now_us: int) -> str:
        patch = plan_patch(wish, seen, epoch=self._epoch, change_id=next(self._ids), now_us=now_us)
        if patch is None:
            return AS_WISHED
        try:
            self._note(self._actuator.patch(patch))
        except Conflict as error:
            if error.field == "epoch":
                raise Broken(
                    f"fenced: another controller has this engine ({error.detail})"
                ) from error
            self._read()
            return f"conflict: {error.detail}"
        except Rejected as error:
            return f"refused: {error.detail}"
        except Unavailable as error:
            self._read()
            return f"no answer: {error.detail}"
        return "patched"

    def _read(self) -> None:
        """Read what is new; the whole change log when the engine is another incarnation."""
        known = self.seen
        newest = -1 if known is None else max((c.seq for c in known.changes), default=-1)
        try:
            seen = self._actuator.read(after_seq=newest)
            if known is not None and seen.incarnation != known.incarnation:
                seen = self._actuator.read()
            self._note(seen)
        except (Unavailable, Rejected) as error:
            self.problem = error.detail

    def _note(self, seen: RuntimeConfig) -> None:
        """Remember an answer, with the latest changes of this incarnation put before its own."""
        known = self.seen
        if known is not None and known.incarnation == seen.incarnation:
            first = min((change.seq for change in seen.changes), default=sys.maxsize)
            earlier = tuple(change for change in known.changes if change.seq < first)
            changes = (*earlier, *seen.changes)[-REMEMBERED_CHANGES:]
            seen = msgspec.structs.replace(seen, changes=changes)
        self.seen, self.problem, self._read_at_s = seen, None, self._mono()


class Fleet:
    """Replicas by target, and the latch that stands between a wish and each of them."""

    def __init__(self, replicas: dict[str, list[Replica]], latch: Latch) -> None:
        self._replicas = replicas
        self.latch = latch

    def of(self, target: str) -> list[Replica]:
        """The target's replicas."""
        return self._replicas[target]

    def first(self, target: str) -> Replica:
        """The replica that the loop reads."""
        return self._replicas[target][0]

    def bring(
        self,
        target: str,
        wish: Desired,
        *,
        now_us: int,
        under: Latched | None,
        after: RuntimeConfig | None = None,
    ) -> list[Reached]:
        """Bring the wish to every replica, while the latch is what the wish was made ``under``."""

        def moved() -> bool:
            return self.latch.read().get(target) != under

        return [r.bring(wish, now_us=now_us, unless=moved, after=after) for r in self.of(target)]


def monotonic_s() -> float:
    """The clock replicas are timed with outside tests."""
    return time.monotonic()

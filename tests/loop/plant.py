"""A whole target in one thread and in no real time: the real loop, store and settings book.

Only the plant is synthetic: it answers requests in zero time, well or badly by the cap in force, so
that a test can say "cap 2 is bad" and see what the loop makes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from engine.knobs import embedded_knobs
from engine.metering import ArrivalMeter
from engine.settings_book import SettingsBook
from engine.settings_in_force import EngineIdentity, Instant
from policies.runtime_config import Patch, RuntimeConfig, Stamp
from signals.errors import Rejected, Unavailable
from signals.events import MICROS, KvLayout
from signals.features.model import (
    EngineSeen,
    Outcome,
    RequestRow,
    SecondRow,
    WindowCounts,
    WindowKey,
    WindowRevision,
)

START_S = 1_800_000_000.0
TICK_S = 0.1
CURVE = ((1, 0, 16_000), (8, 0, 22_000), (64, 0, 80_000), (1, 256, 90_000))


class Book:
    """An ``Actuator`` over the real settings book; ``die`` makes it another incarnation."""

    def __init__(self, clock: Callable[[], Instant], replica: str = "r0") -> None:
        self._clock = clock
        self.replica = replica
        self.lives = 0
        self.reachable = True
        self.refuses = False
        self.die()

    def die(self) -> None:
        """Restart: a new incarnation with everything forgotten."""
        self.lives += 1
        self.meter = ArrivalMeter(("interactive", "batch"))
        knobs = embedded_knobs(
            capacity_active=64,
            capacity_budget=256,
            boot_active_cap=None,
            boot_step_token_budget=None,
        )
        identity = EngineIdentity(
            target="chat", replica=self.replica, incarnation=f"life{self.lives}"
        )
        self.book = SettingsBook(
            identity, knobs, self.meter, ("interactive", "batch"), remembered=64, now=self._clock()
        )

    @property
    def stamp(self) -> Stamp:
        """What requests arriving now carry."""
        self.book.pass_time(self._clock())
        return self.book.stamp

    def read(self, *, after_seq: int = -1) -> RuntimeConfig:
        """As the contract says."""
        self._answer()
        return self.book.view(self._clock(), after_seq=after_seq)

    def patch(self, patch: Patch) -> RuntimeConfig:
        """As the contract says."""
        self._answer()
        if self.refuses:
            raise Rejected("this engine refuses everything", field="settings")
        return self.book.apply(patch, self._clock())

    def _answer(self) -> None:
        if not self.reachable:
            raise Unavailable("the engine does not answer")
        self.book.pass_time(self._clock())


class Rows:
    """A ``Features`` whose rows the world appends. ``at``: the replica that windows are of."""

    def __init__(self, clock: Callable[[], Instant]) -> None:
        self._clock = clock
        self.requests: list[RequestRow] = []
        self.second_rows: list[SecondRow] = []
        self.said: list[Outcome] = []
        self.errors: dict[tuple[str, int], int] = {}
        self.incomplete: set[tuple[str, int]] = set()
        self.at = "r0"
        self.gone = False
        self.kv: KvLayout | None = None

    def watermark_us(self, target: str) -> int:
        if self.gone:
            raise Unavailable("the feature store is gone")
        return round(self._clock().wall_s * MICROS)

    def revisions(self, *, after: int, limit: int = 1000) -> Sequence[WindowRevision]:
        return ()

    def windows(
        self, target: str, *, from_us: int, to_us: int, width_s: int = 5
    ) -> Sequence[WindowRevision]:
        keys = sorted({*self.errors, *self.incomplete})
        return [self._window(trial, block, to_us) for trial, block in keys]

    def arrived(self, target: str, *, from_us: int, width_s: int) -> Mapping[str, int]:
        return {}

    def _window(self, trial: str, block: int, at_us: int) -> WindowRevision:
        errors = self.errors.get((trial, block), 0)
        return WindowRevision(
            cursor=1,
            key=WindowKey(
                target="chat",
                replica=self.at,
                intent="live",
                digest="d",
                trial=trial,
                block=block,
                start_us=at_us - at_us % (5 * MICROS),
                width_s=5,
            ),
            revision=1,
            closed=False,
            incomplete=(trial, block) in self.incomplete,
            counts=WindowCounts(errors=errors, completed=errors),
        )

    def trial_requests(self, trial: str, *, block: int | None = None) -> Sequence[RequestRow]:
        return [r for r in self.requests if r.trial == trial and block in (None, r.block)]

    def trial_seconds(self, trial: str, *, block: int | None = None) -> Sequence[SecondRow]:
        return [s for s in self.second_rows if s.trial == trial and block in (None, s.block)]

    def seconds(self, target: str, *, from_us: int, to_us: int) -> Sequence[SecondRow]:
        return [s for s in self.second_rows if from_us < s.to_us <= to_us]

    def request(self, request_id: str) -> RequestRow | None:
        return next((r for r in self.requests if r.request_id == request_id), None)

    def find_requests(
        self, target: str, *, good: bool | None = None, intent: str | None = None, limit: int = 20
    ) -> Sequence[RequestRow]:
        found = [r for r in self.requests[-1000:] if intent in (None, r.intent)]
        return found[::-1][:limit]

    def outcomes(self, request_id: str) -> Sequence[Outcome]:
        return [one for one in self.said if one.request_id == request_id]

    def trial_outcomes(self, trial: str, *, block: int) -> Sequence[Outcome]:
        mine = {row.request_id for row in self.trial_requests(trial, block=block)}
        return [one for one in self.said if one.request_id in mine]

    def engines(self, target: str) -> Sequence[EngineSeen]:
        seen = EngineSeen(
            target="chat",
            replica="r0",
            incarnation="life1",
            fingerprint="test",
            curve=CURVE,
            last_us=self.watermark_us(target),
            gaps=0,
            dropped=0,
            kv=self.kv,
        )
        return [seen]

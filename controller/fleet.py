"""The engines of a target, as the controller last saw them, and how a wish is brought to them.

Replicas are spoken to side by side, each on a thread of a bounded pool, so one that hangs delays
nobody: who has not answered when the time is up is listed as such, and what it still does ends by
its own time-out. Thread-safe: the loop and the operator's kill may act at the same time, and the
engine's ``expected`` decides who was first.
"""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait

import msgspec
from msgspec import Struct

from controller.act_journal import ActJournal
from controller.desired import Desired, Wishes
from controller.latch import Latch, Latched
from controller.reconciler import differs, plan_patch
from policies.actuator import Actuator
from policies.runtime_config import RuntimeConfig
from signals.errors import Broken, Conflict, Rejected, Unavailable

Wish = Desired | Callable[[RuntimeConfig], Desired]
"""What one replica should have; where it depends on what that shows, it is asked once, at first."""

TRIES = 3
AS_WISHED = "as wished"
DEADLINE_S = 1.3
THREADS = 96
FRESH_S = 1.0
"""The loop looks twice a second; an act may begin with that look."""
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
    """One engine: its actuator, and what it last showed.

    ``ours``: how change ids begin. ``epoch`` None: whatever the engine has now. ``problem``: why it
    does not answer; ``refused``: why it did not take the last change.
    """

    def __init__(
        self,
        url: str,
        actuator: Actuator,
        *,
        ours: str,
        epoch: int | None,
        mono: Callable[[], float],
    ) -> None:
        self.url = url
        self.seen: RuntimeConfig | None = None
        self.problem: str | None = None
        self.refused: str | None = None
        self._actuator = actuator
        self._mono = mono
        self._epoch = epoch
        self._ids = (f"{ours}{epoch or 0}.{n}" for n in itertools.count())
        self._lock = threading.Lock()
        self._read_at_s = float("-inf")

    @property
    def name(self) -> str:
        """The replica's own name once seen, its address until then."""
        return self.url if self.seen is None else self.seen.replica

    def read(self, *, max_age_s: float = 0.0) -> RuntimeConfig | None:
        """Read back, unless a look this young is at hand. None: not reachable now."""
        with self._lock:
            if self.stale(max_age_s):
                self._read()
            return self.shown()

    def stale(self, max_age_s: float) -> bool:
        """Whether the last look is older than that."""
        return self._mono() - self._read_at_s > max_age_s

    def shown(self) -> RuntimeConfig | None:
        """What it showed last; None when it did not answer after that."""
        return self.seen if self.problem is None else None

    def bring(
        self, wish: Wish, *, now_us: int, unless: Callable[[], bool], after: RuntimeConfig | None
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
        wish: Wish,
        now_us: int,
        unless: Callable[[], bool],
        after: RuntimeConfig | None,
    ) -> str:
        detail = AS_WISHED
        if after is None and not self._may_begin_with(wish):
            self._read()
        if not isinstance(wish, Desired):
            if self.seen is None or self.problem is not None:
                return f"unreachable: {self.problem}"
            wish = wish(self.seen)
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

    def _may_begin_with(self, wish: Wish) -> bool:
        """Whether what was seen last will do: it is young, and a PATCH follows that expects it.

        What looks as wished already is looked at again: only a read-back now says so.
        """
        if self.seen is None or self.problem is not None or self.stale(FRESH_S):
            return False
        return isinstance(wish, Desired) and bool(differs(wish, self.seen))

    def _patch(self, wish: Desired, seen: RuntimeConfig, now_us: int) -> str:
        epoch = seen.epoch if self._epoch is None else self._epoch
        patch = plan_patch(wish, seen, epoch=epoch, change_id=next(self._ids), now_us=now_us)
        if patch is None:
            return AS_WISHED
        try:
            self._note(self._actuator.patch(patch))
            self.refused = None
        except Conflict as error:
            if error.field == "epoch":
                raise Broken(
                    f"fenced: another controller has this engine ({error.detail})"
                ) from error
            self._read()
            return f"conflict: {error.detail}"
        except Rejected as error:
            self.refused = error.detail
            return f"refused: {error.detail}"
        except Unavailable as error:
            self._read()
            return f"no answer: {error.detail}"
        return "patched"

    def _read(self) -> None:
        """Read what is new; the whole change log when the engine is another incarnation."""
        known = self.seen
        newest = -1 if known is None else _read_up_to(known)
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
            kept = max(REMEMBERED_CHANGES, len(seen.changes))
            changes = (*earlier, *seen.changes)[-kept:]
            seen = msgspec.structs.replace(seen, changes=changes)
        self.seen, self.problem, self._read_at_s = seen, None, self._mono()


def _read_up_to(known: RuntimeConfig) -> int:
    """The last line of the log before the first gap that the engine can still fill.

    The answer to a PATCH holds the lines of that PATCH; a law may have moved just before it.
    """
    last = -1
    for line in known.changes:
        if last >= 0 and line.seq != last + 1 and last + 1 >= known.log_from:
            return last
        last = line.seq
    return last


class Fleet:
    """Replicas by target, and the latch that stands between a wish and each of them.

    Beside the latch lies the journal of acts that the store has not heard of.

    ``deadline_s``: an act waits so long for all its replicas together. ``threads``: replicas spoken
    to at once, those that hang included; more wait.
    """

    def __init__(
        self,
        replicas: dict[str, list[Replica]],
        latch: Latch,
        *,
        deadline_s: float = DEADLINE_S,
        threads: int = THREADS,
    ) -> None:
        self._replicas = replicas
        self.latch = latch
        self.journal = ActJournal(latch.folder / "acts")
        self._deadline_s = deadline_s
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="replica")
        self._reading: dict[int, Future[RuntimeConfig | None]] = {}

    def of(self, target: str) -> list[Replica]:
        """The target's replicas."""
        return self._replicas[target]

    def first(self, target: str) -> Replica:
        """The replica that the loop reads."""
        return self._replicas[target][0]

    def glimpse(self, target: str, *, max_age_s: float) -> RuntimeConfig | None:
        """What the first replica that answers shows now; else what one showed last, if any did.

        All are asked side by side; those that hang are waited for as an act does.
        """
        replicas = self.of(target)
        shown = self.look(replicas, max_age_s=max_age_s)
        last = (one.seen for one in replicas)
        return next((one for one in (*shown, *last) if one is not None), None)

    def close(self) -> None:
        """Start nothing more; calls under way end by their own time-outs."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def look(
        self, replicas: Iterable[Replica], *, max_age_s: float, wait_s: float | None = None
    ) -> list[RuntimeConfig | None]:
        """What each shows, all asked side by side; None for those that do not answer.

        One that is being asked already is not asked again. ``wait_s`` None: the deadline of an act.
        """
        chosen = list(replicas)
        if len(chosen) == 1 and wait_s is None:
            return [chosen[0].read(max_age_s=max_age_s)]
        asked = {id(one): self._ask(one, max_age_s) for one in chosen if one.stale(max_age_s)}
        wait(asked.values(), timeout=self._deadline_s if wait_s is None else wait_s)
        late = {key for key, future in asked.items() if not future.done()}
        return [None if id(one) in late else one.shown() for one in chosen]

    def _ask(self, replica: Replica, max_age_s: float) -> Future[RuntimeConfig | None]:
        under_way = self._reading.get(id(replica))
        if under_way is None or under_way.done():
            under_way = self._pool.submit(replica.read, max_age_s=max_age_s)
            self._reading[id(replica)] = under_way
        return under_way

    def bring(
        self, target: str, wish: Wish, *, now_us: int, under: Latched | None
    ) -> list[Reached]:
        """Bring an operator's wish to every replica; see ``bring_all``."""
        return self.bring_all({target: wish}, now_us=now_us, under={target: under})[target]

    def bring_all(
        self,
        wishes: Mapping[str, Wish],
        *,
        now_us: int,
        under: Mapping[str, Latched | None],
    ) -> dict[str, list[Reached]]:
        """Bring each target's wish to its replicas, all side by side, whatever they show.

        Nothing is sent once the latch is not what the wish was made ``under``. Replicas that have
        not answered when the time is up are listed as such.
        """
        jobs = {
            target: [
                (one, self._job(target, one, wish, now_us, under[target], None))
                for one in self.of(target)
            ]
            for target, wish in wishes.items()
        }
        wait([job for of in jobs.values() for _, job in of], timeout=self._deadline_s)
        return {
            target: [_listed(one, job, self._deadline_s) for one, job in of]
            for target, of in jobs.items()
        }

    def reconcile(
        self,
        target: str,
        wishes: Wishes,
        *,
        now_us: int,
        under: Latched | None,
        after: RuntimeConfig | None,
    ) -> list[Reached]:
        """Bring the loop's wishes to those replicas that show something else; level-triggered.

        ``after``: what the first replica showed when the wish was made; None: it did not answer.
        Nothing is sent to one that has moved on since, or that does not answer at all.
        """
        first, jobs, found = self.first(target), [], []
        for one in self.of(target):
            shown = after if one is first else one.shown()
            if shown is None or self._asked(one):
                found.append(_unreachable(one, one.problem or "no answer yet"))
            elif differs(wish := wishes.of(shown.replica), shown):
                jobs.append((one, wish, shown))
        if len(jobs) == 1:
            moved = self._moved(target, under)
            one, wish, shown = jobs[0]
            return [*found, one.bring(wish, now_us=now_us, unless=moved, after=shown)]
        sent = [
            (one, self._job(target, one, wish, now_us, under, shown)) for one, wish, shown in jobs
        ]
        wait([job for _, job in sent], timeout=self._deadline_s)
        return [*found, *(_outcome(one, job, self._deadline_s) for one, job in sent)]

    def _job(
        self,
        target: str,
        replica: Replica,
        wish: Wish,
        now_us: int,
        under: Latched | None,
        after: RuntimeConfig | None,
    ) -> Future[Reached]:
        moved = self._moved(target, under)
        return self._pool.submit(replica.bring, wish, now_us=now_us, unless=moved, after=after)

    def _moved(self, target: str, under: Latched | None) -> Callable[[], bool]:
        return lambda: self.latch.read().get(target) != under

    def _asked(self, replica: Replica) -> bool:
        under_way = self._reading.get(id(replica))
        return under_way is not None and not under_way.done()


def _outcome(replica: Replica, future: Future[Reached], deadline_s: float) -> Reached:
    if future.done():
        return future.result()
    late = _unreachable(replica, f"no answer within {deadline_s:g} s")
    return msgspec.structs.replace(late, took_ms=round(deadline_s * 1000, 1))


def _listed(replica: Replica, future: Future[Reached], deadline_s: float) -> Reached:
    """An act goes on where one engine is another controller's; the loop stops there, loudly."""
    try:
        return _outcome(replica, future, deadline_s)
    except Broken as error:
        return _unreachable(replica, str(error))


def _unreachable(replica: Replica, why: str) -> Reached:
    return Reached(
        replica=replica.name, url=replica.url, ok=False, detail=f"unreachable: {why}", took_ms=0.0
    )


def monotonic_s() -> float:
    """The clock replicas are timed with outside tests."""
    return time.monotonic()

"""Hold, kill, detach and release: the acts that must work when everything else is broken.

::

    latch (fsync) ──► wish ≤ 0.2 s ──► every replica, side by side ≤ 1.3 s ──► record ≤ 0.5 s
                       │ the store, else              │ read back, or            │ the store, else
                       │ what the loop read last,     └ listed as not reached    └ a file that the
                       └ else the engines' own word                                loop reads in

Latch first, engines next, the store last: nothing here waits for a store that hangs, and an engine
that hangs delays no other. Several targets are one act: every latch is set before the first engine
is spoken to.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec import Struct

from controller.act_journal import Act, ActKind, act_id, record
from controller.baselines import baseline_in_force
from controller.bounded import Bounded
from controller.fleet import Fleet, Reached, Wish
from controller.following import MANY, follow_latch, said
from controller.latch import Latched, LatchState, standing
from controller.state import Declared
from controller.store.port import Principal, Store
from controller.wishes import Lower, blind_wish, known_wish, unknown
from signals.errors import Conflict, NotFound, TrimtabError

REACHED: ActKind = "control.reached"
LATCHED: Final[tuple[LatchState, ...]] = ("held", "killed")
"""What a release ends."""
OURS: Final[tuple[LatchState, ...]] = ("released", *LATCHED)
"""What may be held or killed: all but what is detached."""


class ControlReport(Struct, frozen=True, kw_only=True):
    """What became of an act at each replica. Unreachable ones are listed.

    ``took_ms``: from the act until every replica was read back or given up. ``recorded`` False: the
    store could not be written in time; the latch stands, and the record follows it.
    """

    target: str
    replicas: tuple[Reached, ...]
    took_ms: float
    recorded: bool = True


class ControlOperations:
    """The acts. ``wake`` makes the loop look at once; ``clock`` answers Unix µs.

    ``lower``: what a target's loop read last of its layers, for when the store does not answer.
    """

    act_kind: ActKind = REACHED

    def __init__(
        self,
        store: Store,
        fleet: Fleet,
        declared: Mapping[str, Declared],
        *,
        clock: Callable[[], int],
        mono: Callable[[], float],
        wake: Callable[[], None],
        lower: Callable[[str], Lower | None] = unknown,
    ) -> None:
        self._store = store
        self._fleet = fleet
        self._declared = declared
        self._clock = clock
        self._mono = mono
        self._wake = wake
        self._lower = lower
        self._reading: Bounded[dict[str, Lower]] = Bounded("reading the store")
        self._recording: Bounded[None] = Bounded("recording an act")

    def hold(self, target: str, reason: str, *, by: Principal) -> ControlReport:
        """Nothing changes any more: laws freeze, the trial pauses, expiries are suspended."""
        return _one(self.hold_all([target], reason, by=by), target)

    def hold_all(
        self, targets: Sequence[str], reason: str, *, by: Principal
    ) -> list[ControlReport]:
        """Hold several; what was killed stays where it is. Detached ones are left out."""
        return self.carry_out(targets, self._latched("held", reason, by), by, over=OURS)

    def kill(self, target: str, reason: str, *, by: Principal) -> ControlReport:
        """Stop the loop, then go to what ``on_kill`` declares; read back, unreachable listed."""
        return _one(self.kill_all([target], reason, by=by), target)

    def kill_all(
        self, targets: Sequence[str], reason: str, *, by: Principal
    ) -> list[ControlReport]:
        """Kill several. Detached ones are left out."""
        return self.carry_out(targets, self._latched("killed", reason, by), by, over=OURS)

    def release(self, target: str, reason: str, *, by: Principal) -> ControlReport:
        """End a hold or a kill; the loop goes on from what was kept."""
        self.target(target)
        released = self.carry_out([target], self._latched("released", reason, by), by, over=LATCHED)
        if not released:
            raise Conflict(f"{target} is neither held nor killed", field="target", value=target)
        return released[0]

    def release_all(
        self, targets: Sequence[str], reason: str, *, by: Principal
    ) -> list[ControlReport]:
        """End the hold or kill of those of them that are held or killed."""
        return self.carry_out(targets, self._latched("released", reason, by), by, over=LATCHED)

    def target(self, target: str) -> Declared:
        """What files say of a target. Raises ``NotFound``."""
        found = self._declared.get(target)
        if found is None:
            raise NotFound(
                f"no target {target!r}",
                field="target",
                value=target,
                allowed=sorted(self._declared),
            )
        return found

    def carry_out(
        self,
        targets: Sequence[str],
        change: Latched,
        by: Principal,
        *,
        over: Collection[LatchState] | None = None,
        wish: Wish | None = None,
    ) -> list[ControlReport]:
        """Latch (again, if it is already), reach every replica of each, then record.

        ``over``: only targets whose latch stands so now, ``released`` where none does; of others
        there is no report. ``wish``: what engines should have, where it does not follow from the
        layers and the latch.
        """
        began_s, now_us = self._mono(), self._clock()
        known = [self.target(target) for target in targets]
        chosen = [one for one in known if self._fleet.latch.set(one.name, change, over=over)]
        names = [one.name for one in chosen]
        latched = standing((change,))
        if wish is None:
            wishes = self._wishes(chosen, latched, now_us)
        else:
            wishes = dict.fromkeys(names, wish)
        under = dict.fromkeys(names, latched)
        reached = self._fleet.bring_all(wishes, now_us=now_us, under=under)
        took_ms = round((self._mono() - began_s) * 1000, 1)
        acts = [self._act(name, change, by, reached[name], (now_us, took_ms)) for name in names]
        recorded = self._record(acts)
        self._wake()
        return [
            ControlReport(
                target=name, replicas=tuple(reached[name]), took_ms=took_ms, recorded=recorded
            )
            for name in names
        ]

    # -- what is wished ------------------------------------------------------------------------

    def _wishes(
        self, chosen: Sequence[Declared], latched: Latched | None, now_us: int
    ) -> dict[str, Wish]:
        """Each target's wish, from the best source that answers in time."""
        found: Mapping[str, Lower] = {}
        within_s = min((one.control.store_ms for one in chosen), default=0) / 1000
        try:
            found = self._reading.ask(lambda: self._read(chosen), within_s=within_s)
        except TrimtabError:
            kept = ((one.name, self._lower(one.name)) for one in chosen)
            found = {name: lower for name, lower in kept if lower is not None}
        return {
            one.name: known_wish(one, found[one.name], latched, now_us=now_us)
            if one.name in found
            else partial(blind_wish, one, latched)
            for one in chosen
        }

    def _read(self, chosen: Sequence[Declared]) -> dict[str, Lower]:
        with self._store.read() as tx:
            return {
                one.name: Lower(
                    baseline=baseline_in_force(tx.baseline(one.name), one.target),
                    policies=tx.policies(target=one.name, states=("kept", "in_force"), limit=MANY),
                    overrides=tx.overrides(target=one.name, state="active", limit=MANY),
                )
                for one in chosen
            }

    # -- what is recorded ----------------------------------------------------------------------

    def _act(
        self,
        target: str,
        change: Latched,
        by: Principal,
        reached: Sequence[Reached],
        told: tuple[int, float],
    ) -> Act:
        at_us, took_ms = told
        return Act(
            id=act_id(target, at_us),
            kind=self.act_kind,
            target=target,
            by=by.id,
            at_us=at_us,
            verb=change.state,
            reason=change.reason,
            latched=standing((change,)),
            replicas={one.replica: one.detail for one in reached},
            took_ms=took_ms,
        )

    def _record(self, acts: Sequence[Act]) -> bool:
        """Bring the store after the latch; False when it can't be written in time."""
        if not acts:
            return True
        within_s = self.target(acts[0].target).control.record_ms / 1000
        try:
            self._recording.ask(lambda: self._write(acts), within_s=within_s)
        except TrimtabError:
            for act in acts:
                self._fleet.journal.write(act)
            return False
        return True

    def _write(self, acts: Sequence[Act]) -> None:
        with self._store.write() as tx:
            for act in acts:
                changes = self._fleet.latch.changes(act.target)
                follow_latch(tx, act.target, changes, now_us=act.at_us)
                record(tx, act)

    # -- the latch -----------------------------------------------------------------------------

    def _latched(self, state: LatchState, reason: str, by: Principal) -> Latched:
        return Latched(state=state, actor=by.id, reason=said(reason), since_us=self._clock())

    def _latches(self, *states: LatchState) -> dict[str, Latched]:
        now = self._fleet.latch.read()
        return {target: one for target, one in now.items() if one.state in states}


def _one(reports: list[ControlReport], target: str) -> ControlReport:
    """The one report. Raises ``Conflict``: the target was left out."""
    if not reports:
        raise Conflict(
            f"{target} is detached: nothing is sent to it until it is attached",
            field="target",
            value=target,
        )
    return reports[0]

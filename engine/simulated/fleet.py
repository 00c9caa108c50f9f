"""Simulated replicas of one target behind a router, sharing one stream of arrivals.

``random`` routes each request by a coin of its own; ``least_loaded`` to the replica with the fewest
requests that have not ended, ties by a coin. Both pass by a replica that is away while another is
up. Routing draws from a stream of its own, so that it is the same whatever the replicas draw.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
from numpy.random import SeedSequence, default_rng

from engine.simulated.clock import SimClock
from engine.simulated.faults import Fault, MemoryShrinks, Restart
from engine.simulated.offered import Arrivals, Offered
from engine.simulated.replica import Replica
from engine.simulated.rows import request_row
from engine.simulated.seconds import Told
from engine.simulated.spec import ReplicaSpec
from engine.simulated.visit import Visit
from signals.errors import Rejected
from signals.events import MICROS, KvLayout, Second
from signals.features.model import EngineSeen, RequestRow, SecondRow
from signals.features.producers import ClockReport
from signals.features.seconds import row_of_second
from signals.settings import Slo

Router = Literal["random", "least_loaded"]
SLICE_US = 60 * MICROS
"""Arrivals are read at most so far ahead of what they arrive at."""


class Fleet:
    """See the module, and the package for how it is driven. ``clock``: up to where it was run."""

    def __init__(
        self,
        replicas: Mapping[str, ReplicaSpec],
        arrivals: Arrivals,
        *,
        slos: Mapping[str, Slo],
        seed: int,
        router: Router = "random",
        target: str = "chat",
        faults: Sequence[Fault] = (),
    ) -> None:
        unknown = {fault.replica for fault in faults} - set(replicas)
        if unknown or not replicas:
            named = ", ".join(sorted(unknown)) or "none"
            raise Rejected("no such replica", field="replicas", value=named, allowed=[*replicas])
        self.target = target
        self.clock = SimClock()
        self.offered = 0
        self._slos = [(0, dict(slos))]
        self._router = router
        self._arrivals = arrivals
        self._next: Offered | None = next(arrivals, None)
        coins, *seeds = SeedSequence(seed).generate_state(len(replicas) + 1)
        self._rng = default_rng(int(coins))
        self._replicas = {
            name: Replica(name, target, spec, _of(faults, name), int(of_replica))
            for (name, spec), of_replica in zip(replicas.items(), seeds, strict=True)
        }
        self._in_order = list(self._replicas.values())
        self._visits: list[Visit] = []
        self._made: dict[tuple[str, int], tuple[Second, SecondRow]] = {}
        dies = any(isinstance(one, Restart | MemoryShrinks) for one in faults)
        dies = dies or any(spec.memory_blocks is not None for spec in replicas.values())
        self._looks = len(replicas) > 1 and (dies or router == "least_loaded")

    @property
    def now_us(self) -> int:
        """Up to where it was run."""
        return self.clock.now_us

    def run(self, until_us: int) -> None:
        """Go on until a time: every arrival until then comes, every step before it is taken."""
        while self.clock.now_us < until_us:
            part_us = min(until_us, self.clock.now_us + SLICE_US)
            self._let_arrive(part_us)
            for replica in self._in_order:
                replica.advance(part_us)
            self.clock.now_us = part_us

    def replica(self, name: str) -> Replica:
        """One of them; its ``patch`` and ``view`` are PATCH and GET. ``KeyError`` if unknown."""
        return self._replicas[name]

    def declare(self, slos: Mapping[str, Slo]) -> None:
        """Judge what arrives from now on by other service levels."""
        self._slos.append((self.now_us + 1, dict(slos)))

    @property
    def keeps_time(self) -> bool:
        """Whether every replica's wall clock is right for ever."""
        return all(replica.keeps_time for replica in self._in_order)

    @property
    def replicas(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(self._replicas)

    # -- what it tells -------------------------------------------------------------------------

    def requests(self, from_us: int, to_us: int) -> list[RequestRow]:
        """Requests that arrived in (from, to], by arrival, as known now. Times are as told by the
        replica's clock; which they are goes by true time."""
        now_us = self.clock.now_us
        rows = [
            visit.row
            if visit.settled
            else visit.told
            if visit.stands_us > now_us and (visit.finished_us or math.inf) > now_us
            else self._row(visit, now_us)
            for visit in self._arrived(from_us, min(to_us, now_us))
        ]
        return [row for row in rows if row is not None]

    def records(self, from_us: int, to_us: int) -> list[Second]:
        """``second`` records that ended in (from, to] and were not lost, by time."""
        return [record for record, _ in self._told(from_us, to_us)]

    def seconds(self, from_us: int, to_us: int) -> list[SecondRow]:
        """The same as the controller reads them."""
        return [row for _, row in self._told(from_us, to_us)]

    def incomplete(self, from_us: int, to_us: int) -> bool:
        """Whether records of some moment in (from, to] were lost: no verdict may read it."""
        return any(replica.lost_between(from_us, to_us) for replica in self._in_order)

    def engines(self) -> list[EngineSeen]:
        """Each replica as last heard of, with the curve it would have measured at boot."""
        return [self._seen(replica) for replica in self._in_order]

    def forget(self, before_us: int) -> None:
        """Drop requests that arrived, and seconds that ended, until then. What runs goes on."""
        del self._visits[: bisect_right(self._visits, before_us, key=_arrival_us)]
        for replica in self._in_order:
            told = replica.seconds.told
            del told[: bisect_right(told, before_us, key=_to_us)]
        self._made = {key: made for key, made in self._made.items() if key[1] > before_us}

    # -- arrivals ------------------------------------------------------------------------------

    def _let_arrive(self, until_us: int) -> None:
        while (offered := self._next) is not None:
            arrival_us = round(offered.arrival_s * MICROS)
            if arrival_us > until_us:
                return
            visit = Visit(self.offered, offered, arrival_us)
            self._route(arrival_us).offer(visit)
            self._visits.append(visit)
            self.offered += 1
            self._next = next(self._arrivals, None)

    def _route(self, arrival_us: int) -> Replica:
        choice = self._in_order
        if self._looks:
            for replica in choice:
                if replica.at_us < arrival_us:
                    replica.advance(arrival_us)
            choice = [replica for replica in choice if replica.up] or choice
        if len(choice) == 1:
            return choice[0]
        if self._router == "least_loaded":
            loads = [replica.load for replica in choice]
            least = min(loads)
            choice = [one for one, load in zip(choice, loads, strict=True) if load == least]
        return choice[int(self._rng.random() * len(choice))]

    def _arrived(self, from_us: int, to_us: int) -> list[Visit]:
        low, high = (bisect_right(self._visits, at, key=_arrival_us) for at in (from_us, to_us))
        return self._visits[low:high]

    def _row(self, visit: Visit, now_us: int) -> RequestRow | None:
        replica = self._replicas[visit.stamp.replica]
        at = bisect_right(self._slos, visit.arrival_us, key=lambda declared: declared[0]) - 1
        slo = self._slos[max(0, at)][1].get(visit.intent)
        return request_row(visit, replica, slo or Slo(), now_us=now_us)

    def _told(self, from_us: int, to_us: int) -> list[tuple[Second, SecondRow]]:
        """Each record is made when somebody first asks: a loop asks for the same ones for long."""
        found = []
        for replica in self._in_order:
            told = replica.seconds.told
            low, high = (bisect_right(told, at, key=_to_us) for at in (from_us, to_us))
            found += [
                (one.to_us, self._made.get((replica.name, one.to_us)) or self._make(replica, one))
                for one in told[low:high]
                if not replica.lost(one.to_us)
            ]
        if len(self._in_order) > 1:
            found.sort(key=lambda pair: pair[0])
        return [made for _, made in found]

    def _make(self, replica: Replica, told: Told) -> tuple[Second, SecondRow]:
        record = told.record(replica.skew_us(told.to_us))
        made = self._made[replica.name, told.to_us] = record, row_of_second(record)
        return made

    def _seen(self, replica: Replica) -> EngineSeen:
        skew_ms = replica.skew_us(self.now_us) / 1000
        told = (one.to_us for one in reversed(replica.seconds.told) if not replica.lost(one.to_us))
        return EngineSeen(
            target=self.target,
            replica=replica.name,
            incarnation=replica.incarnation,
            fingerprint=fingerprint(replica.spec),
            curve=curve(replica.spec),
            kv=layout(replica.spec),
            last_us=next(told, 0),
            gaps=replica.gaps(self.now_us),
            dropped=0,
            clock=ClockReport(most_ahead_ms=max(0.0, skew_ms), least_delay_ms=max(0.0, -skew_ms)),
        )


def fingerprint(spec: ReplicaSpec) -> str:
    """What tells one kind of simulated engine from another."""
    described = msgspec.json.encode(spec, order="deterministic")
    return f"simulated-{hashlib.sha256(described).hexdigest()[:16]}"


def layout(spec: ReplicaSpec) -> KvLayout:
    """Of keys and values of one half-precision number each: only blocks matter here."""
    return KvLayout(
        layers=1,
        kv_heads=1,
        head_dim=1,
        value_bits=16,
        block_tokens=spec.block_tokens,
        blocks=spec.kv_blocks,
    )


def curve(spec: ReplicaSpec) -> tuple[tuple[int, int, int], ...]:
    """(decode, prefill, step µs) at powers of two up to the cap, and with a full budget."""
    decodes = [1 << power for power in range(spec.capacity_active.bit_length())]
    points = [(decode, 0) for decode in decodes]
    points += [(0, spec.capacity_budget // 2), (0, spec.capacity_budget)]
    return tuple(
        (decode, prefill, round(spec.step_times.step_us(decode=decode, prefill=prefill, context=0)))
        for decode, prefill in points
    )


def _arrival_us(visit: Visit) -> int:
    return visit.arrival_us


def _to_us(told: Told) -> int:
    return told.to_us


def _of(faults: Sequence[Fault], replica: str) -> list[Fault]:
    return [fault for fault in faults if fault.replica == replica]

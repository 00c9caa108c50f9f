"""Events of sessions: bound to their request when all that arrived before them are known. Pure.

``correlate`` says to which request, and when; here the ones that wait are gone through.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from signals.features.change import Change, Known, Orphan
from signals.features.correlate import last_before
from signals.features.joining import Join, event_of


class Sessions(Struct, frozen=True):
    """The parts that binding works with."""

    known: Known
    change: Change
    join: Join

    def give_up(self, accepted_us: int) -> None:
        """Something was accepted then: whoever waited so long takes what is known."""
        order = self.known.giving_up
        while order and order[0][0] <= accepted_us:
            _, offset = heapq.heappop(order)
            orphan = self.known.waiting.get(offset)
            if orphan is not None:
                self._bind(orphan)

    def pass_time(self, watermarks: Mapping[str, int]) -> None:
        """Each target's watermark stands there: whoever waited for that is bound."""
        for offset in sorted(self.known.waiting):
            orphan = self.known.waiting[offset]
            wait = orphan.wait
            if wait is not None and wait.due_us <= watermarks.get(orphan.signal.target, 0):
                self._bind(orphan)

    def _bind(self, orphan: Orphan) -> None:
        signal = orphan.signal
        del self.known.waiting[orphan.offset]
        ids = self.known.by_session.get((signal.target, signal.session_id or ""), ())
        row = last_before((self.known.rows[id_] for id_ in ids), signal.time_us)
        if row is not None:
            self.join.take(orphan, row)
            return
        left = msgspec.structs.replace(orphan, wait=None)
        self.change.orphans[orphan.offset] = left
        self.known.add_orphan(left)
        self.change.count(event_of(orphan), "orphaned")

"""When memory was exhausted, told from what an engine's last records say of its end.

An engine that runs out of memory ends what it had with ``MEMORY_EXHAUSTED`` and is gone. The second
it died in is never told, so how it stood is read from the last one that was: the cap in force, and
whose arm of a trial it was. A request that arrived after that second knows better whose arm.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from signals.events import MEMORY_EXHAUSTED, Arm
from signals.features.model import RequestRow, SecondRow

CAP = "active_cap"


class Exhaustion(Struct, frozen=True, kw_only=True):
    """One life of a replica that ended so. ``cap`` None: no second of it was told.

    ``trial`` and ``arm``: what it ran under then; "" and None outside trials.
    """

    replica: str
    incarnation: str
    at_us: int
    cap: int | None
    trial: str = ""
    arm: Arm | None = None

    @property
    def life(self) -> str:
        """Which life of which replica: each ends once."""
        return f"{self.replica}.{self.incarnation}"


def exhaustions(
    requests: Iterable[RequestRow], seconds: Sequence[SecondRow]
) -> tuple[Exhaustion, ...]:
    """Those that recent requests tell of, by time."""
    ended: defaultdict[tuple[str, str], list[RequestRow]] = defaultdict(list)
    for row in requests:
        if row.error == MEMORY_EXHAUSTED and row.finished_us is not None:
            ended[row.replica, row.incarnation].append(row)
    last: dict[tuple[str, str], SecondRow] = {}
    for second in seconds:
        key = (second.replica, second.incarnation)
        if key in ended and (key not in last or last[key].to_us <= second.to_us):
            last[key] = second
    found = [_told(rows, last.get(key)) for key, rows in ended.items()]
    return tuple(sorted(found, key=lambda one: (one.at_us, one.life)))


def _told(rows: Sequence[RequestRow], second: SecondRow | None) -> Exhaustion:
    newest = max(rows, key=lambda row: row.arrival_us)
    under: RequestRow | SecondRow = newest
    if second is not None and second.to_us >= newest.arrival_us:
        under = second
    knobs: Mapping[str, int] = {} if second is None else second.knobs
    return Exhaustion(
        replica=newest.replica,
        incarnation=newest.incarnation,
        at_us=max(row.finished_us or 0 for row in rows),
        cap=knobs.get(CAP),
        trial=under.trial,
        arm=under.arm,
    )

"""Two features files side by side: closed windows and joined outcomes, in the range both have.

Revisions and cursors may differ: they count publications, and batches fall as they fall. What was
counted must not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from msgspec import Struct

from signals.events import MICROS
from signals.features.model import WIDTHS_S, WindowKey, WindowRevision
from signals.features.reader import SqliteFeatures

AT_ONCE: Final = 200
"""Windows of time that are read at once."""
OUTCOMES_AT_ONCE: Final = 5_000
MAX_LISTED: Final = 1_000
"""Differences that are kept to be shown; all are counted."""


class Difference(Struct, frozen=True, kw_only=True):
    """One thing that is not the same: ``what`` it is, and each side of it."""

    what: str
    live: str
    replayed: str


class Comparison(Struct, kw_only=True):
    """How much was compared, and what differs."""

    windows: int = 0
    outcomes: int = 0
    differences: int = 0
    listed: list[Difference] = []

    def add(self, difference: Difference) -> None:
        """Count one, and keep it while there is room."""
        self.differences += 1
        if len(self.listed) < MAX_LISTED:
            self.listed.append(difference)


def compare(
    live: SqliteFeatures,
    replayed: SqliteFeatures,
    targets: Iterable[str],
    *,
    from_us: int,
    to_us: int,
    offsets: range,
) -> Comparison:
    """Windows that start in [from, to) and are closed in both; outcomes of events at ``offsets``
    whose requests arrived then."""
    found = Comparison()
    for target in targets:
        for width_s in WIDTHS_S:
            _windows(found, live, replayed, target, width_s, from_us=from_us, to_us=to_us)
    _outcomes(found, live, replayed, from_us=from_us, offsets=offsets)
    return found


def _windows(
    found: Comparison,
    live: SqliteFeatures,
    replayed: SqliteFeatures,
    target: str,
    width_s: int,
    *,
    from_us: int,
    to_us: int,
) -> None:
    """What retention took from the live file is not compared: nothing up to its oldest window."""
    oldest_us: int | None = None
    step_us = AT_ONCE * width_s * MICROS
    for start_us in range(from_us, to_us, step_us):
        span = {"from_us": start_us, "to_us": min(start_us + step_us, to_us), "width_s": width_s}
        here = {one.key: one for one in live.windows(target, **span)}
        there = {one.key: one for one in replayed.windows(target, **span)}
        if oldest_us is None and here:
            oldest_us = min(key.start_us for key in here)
        for key in sorted(here.keys() | there.keys()):
            if oldest_us is None or (key not in here and key.start_us <= oldest_us):
                continue
            _window(found, key, here.get(key), there.get(key))


def _window(
    found: Comparison, key: WindowKey, live: WindowRevision | None, again: WindowRevision | None
) -> None:
    if any(one is not None and not one.closed for one in (live, again)):
        return
    found.windows += 1
    mine, theirs = _counted(live), _counted(again)
    if mine != theirs:
        what = f"{key.width_s} s window of {key.target}/{key.intent} on {key.replica}"
        what += f" at {key.start_us} under {key.digest}"
        found.add(Difference(what=what, live=mine, replayed=theirs))


def _counted(window: WindowRevision | None) -> str:
    if window is None:
        return "absent"
    flag = "incomplete " if window.incomplete else ""
    return flag + msgspec.json.encode(window.counts).decode()


def _outcomes(
    found: Comparison,
    live: SqliteFeatures,
    replayed: SqliteFeatures,
    *,
    from_us: int,
    offsets: range,
) -> None:
    """Two lists by offset, merged."""
    mine, theirs = _by_offset(live, offsets), _by_offset(replayed, offsets)
    one, other = next(mine, None), next(theirs, None)
    while one is not None or other is not None:
        offset = min(each[0] for each in (one, other) if each is not None)
        live_one = one[1] if one is not None and one[0] == offset else None
        again = other[1] if other is not None and other[0] == offset else None
        if _arrived_us(live, live_one or again or b"") >= from_us:
            found.outcomes += 1
            if live_one != again:
                found.add(
                    Difference(
                        what=f"outcome of the event at offset {offset}",
                        live=(live_one or b"absent").decode(),
                        replayed=(again or b"absent").decode(),
                    )
                )
        one = next(mine, None) if live_one is not None else one
        other = next(theirs, None) if again is not None else other


def _by_offset(features: SqliteFeatures, offsets: range) -> Iterator[tuple[int, bytes]]:
    after = offsets.start - 1
    while True:
        rows = features.joined(after=after, limit=OUTCOMES_AT_ONCE)
        for offset, outcome in rows:
            if offset >= offsets.stop:
                return
            yield offset, msgspec.json.encode(outcome)
        if len(rows) < OUTCOMES_AT_ONCE:
            return
        after = rows[-1][0]


def _arrived_us(live: SqliteFeatures, outcome: bytes) -> int:
    """When an outcome's request arrived; 0 when that is not known any more."""
    request_id = msgspec.json.decode(outcome, type=dict[str, object]).get("request_id")
    row = live.request(str(request_id))
    return 0 if row is None else row.arrival_us

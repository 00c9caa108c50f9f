"""Derives the story again: from the audit export, the engine's change log and the exported rows.

::

    audit export ──► proposed → approved → applied → verdict, by whom
         │ plan, units                          ▲ times, arms
         ▼                                      │
    rows by block ──► values ──► d ──► E ──► ruling, unit by unit; coins tossed again

Each disagreement is one sentence; none means that the story holds.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from examples.journey.arithmetic import (
    Row,
    Values,
    block_values,
    coin,
    differences,
    e_values,
    ruling,
)
from examples.journey.audit_trail import Entry, TrialTrail, moves_of, states_of, trials_in

TOLERANCE = 1e-9
"""Counted units after which a trial may double its blocks."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What was exported. ``changes``: the engine's log; rows by trial id."""

    entries: Sequence[Entry]
    changes: Sequence[Row]
    requests: Mapping[str, Sequence[Row]]
    seconds: Mapping[str, Sequence[Row]]


@dataclass(kw_only=True)
class Rederived:
    """``differs``: what does not hold; ``units`` and ``figures``: what was computed again."""

    differs: list[str] = field(default_factory=list)
    units: int = 0
    figures: int = 0
    verdicts: dict[str, str] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Nothing differs."""
        return not self.differs


def rederive(evidence: Evidence) -> Rederived:
    """Everything that can be derived again, for every trial of the audit."""
    found = Rederived()
    for trail in trials_in(evidence.entries):
        found.differs += _chain(evidence, trail)
        found.differs += _applied(evidence, trail)
        found.differs += _Judge(evidence, trail, found).disagreements()
    return found


def _chain(evidence: Evidence, trail: TrialTrail) -> Iterator[str]:
    """Proposed by one, approved by another, applied, judged: in this order."""
    moves = moves_of(evidence.entries, trail.policy_id)
    states = states_of(evidence.entries, trail.policy_id)
    begin = ["proposed", "pending", "approved", "applying", "on_trial"]
    if states[: len(begin)] != begin[: len(states)]:
        yield f"policy {trail.policy_id} went {' → '.join(states)}"
        return
    if moves[0]["actor"] == moves[2]["actor"]:
        yield f"policy {trail.policy_id} was approved by {moves[2]['actor']}, who proposed it"
    later = [entry["index"] for entry in (*moves[3:], *trail.units)]
    if any(index < trail.frozen_at for index in later):
        yield f"trial {trail.id} was frozen after it began"
    if trail.verdict is None:
        return
    verdict = trail.verdict["details"]["verdict"]
    after = [state for state in states[len(begin) :] if state not in ("paused", "on_trial")]
    ends = {
        "IMPROVED": ["kept"],
        "NO_DATA": ["reverting", "expired"],
    }.get(verdict, ["reverting", "reverted"])
    if after[: len(ends)] != ends[: len(after)] or not after:
        yield f"policy {trail.policy_id} is {verdict}, yet it went {' → '.join(after)}"


def _applied(evidence: Evidence, trail: TrialTrail) -> Iterator[str]:
    """Each block of each unit is in the engine's own log, at the time and with the policy told."""
    log: dict[tuple[int, str], list[Row]] = defaultdict(list)
    for change in evidence.changes:
        stamp = change.get("trial")
        if stamp is not None and stamp["id"] == trail.id:
            log[(stamp["block"], stamp["arm"])].append(change)
    for entry in trail.units:
        unit, arms = entry["details"]["unit"], entry["details"]["arms"]
        for place, (arm, began_us) in enumerate(
            zip(arms, entry["details"]["began_us"], strict=True)
        ):
            seen = log.get((2 * unit + place, arm))
            if not seen:
                yield f"trial {trail.id}: block {2 * unit + place} ({arm}) is not in the change log"
            elif round(min(change["at"] for change in seen) * 1e6) != began_us:
                yield f"trial {trail.id}: block {2 * unit + place} began at another time"
    under = [change for change in evidence.changes if change.get("policy_id") == trail.policy_id]
    if trail.units and not under:
        yield f"policy {trail.policy_id} never was in the engine"


class _Judge:
    """One trial judged again, unit by unit."""

    def __init__(self, evidence: Evidence, trail: TrialTrail, found: Rederived) -> None:
        self._trail = trail
        self._found = found
        self._requests = _by_block(evidence.requests.get(trail.id, ()))
        self._seconds = _by_block(evidence.seconds.get(trail.id, ()))
        self._counted: list[Values] = []

    def disagreements(self) -> Iterator[str]:
        """Coins, values, d, E and the ruling of each unit in turn."""
        trail, verdict = self._trail, None
        for closed, entry in enumerate(trail.units, 1):
            name = f"trial {trail.id}, unit {entry['details']['unit']}"
            if verdict is not None:
                yield f"{name}: the evidence had ended the trial ({verdict}) before it"
            for complaint in self._unit(entry["details"]):
                yield f"{name}: {complaint}"
            trips = sum(trip["index"] < entry["index"] for trip in trail.trips)
            verdict = ruling(trail.plan, self._counted, closed=closed, trips=trips)
        if trail.verdict is not None:
            yield from self._verdict(trail.verdict["details"], verdict)

    def _unit(self, told: Row) -> Iterator[str]:
        self._found.units += 1
        if told["arms"] != coin(self._trail.plan["seed"], told["unit"]):
            yield f"the coin does not give {' then '.join(told['arms'])}"
        if told["void"] == "incomplete telemetry":
            return
        sides, fewest = self._sides(told)
        if fewest < self._trail.plan["min_requests"]:
            if told["void"] is None:
                yield f"only {fewest} arrivals can be counted, yet it counted"
            return
        if told["void"] is not None:
            yield f"void ({told['void']}), yet {fewest} arrivals can be counted in each block"
            return
        mine = differences(self._trail.plan, sides["baseline"], sides["candidate"])
        yield from self._compare("d of ", mine, told["d"])
        self._counted.append(mine)

    def _sides(self, told: Row) -> tuple[dict[str, Values], int]:
        """The values of both arms, and the fewer arrivals of the two blocks."""
        sides: dict[str, Values] = {}
        fewest: float = math.inf
        for place, arm in enumerate(told["arms"]):
            block = 2 * told["unit"] + place
            sides[arm], counted = block_values(
                self._trail.plan,
                told["began_us"][place],
                self._requests[block],
                self._seconds[block],
                times=self._times(told["unit"]),
            )
            fewest = min(fewest, counted)
        return sides, int(fewest)

    def _times(self, unit: int) -> int:
        return 2 if unit >= self._trail.doubled_from else 1

    def _verdict(self, told: Row, mine: str | None) -> Iterator[str]:
        name = f"trial {self._trail.id}"
        tripped_out = len(self._trail.trips) >= self._trail.plan["max_trips"]
        if mine is None and tripped_out:
            mine = "INCONCLUSIVE"
        if told["verdict"] != mine:
            yield f"{name}: told {told['verdict']}, the evidence says {mine or 'go on'}"
        if told["units"] != len(self._counted):
            yield f"{name}: told {told['units']} counted units, there are {len(self._counted)}"
        e = e_values(self._trail.plan, self._counted)
        for complaint in self._compare("E of ", e, told["e"]):
            yield f"{name}: {complaint}"
        self._found.verdicts[self._trail.policy_id] = told["verdict"]

    def _compare(self, what: str, mine: Values, told: Mapping[str, str]) -> Iterator[str]:
        """Figures told by the audit against ours. Parts of U, as the audit also tells, are ours
        in their sum."""
        figures = {name: float(value) for name, value in told.items() if not name.startswith("U:")}
        for name in sorted(figures.keys() | mine.keys()):
            self._found.figures += 1
            a, b = figures.get(name), mine.get(name)
            if a is None or b is None or not _same(a, b):
                yield f"{what}{name} is told as {a}, computed as {b}"


def _by_block(rows: Sequence[Row]) -> Mapping[int, list[Row]]:
    found: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["block"]].append(row)
    return found


def _same(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE)

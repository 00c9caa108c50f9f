"""What the feature stage publishes and the controller reads: windows, request rows, seconds.

Windows (invariant 4): 5 s atoms of event time, keyed by target, replica, intent, settings digest
and trial block; longer windows are merges of atoms. Rules and trips read open windows; verdicts
read request rows, by arrival, from closed ones. Every sum is an integer; quantiles come from a
mergeable sketch; so any order of arrival within the allowed lateness gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from signals.counts import Moments, WindowCounts
from signals.events import Arm, KvLayout, Status, StepMoments
from signals.features.producers import ClockReport

__all__ = [
    "ATOM_S",
    "FIVE_MINUTES_S",
    "HOUR_S",
    "MINUTE_S",
    "WIDTHS_S",
    "EngineSeen",
    "Features",
    "Moments",
    "Outcome",
    "RequestRow",
    "SecondRow",
    "WindowCounts",
    "WindowKey",
    "WindowRevision",
]

ATOM_S = 5
MINUTE_S = 60
FIVE_MINUTES_S = 300
HOUR_S = 3600
WIDTHS_S = (ATOM_S, MINUTE_S, FIVE_MINUTES_S, HOUR_S)
"""Atoms, and the merges of them that are kept longer."""


class WindowKey(Struct, frozen=True, kw_only=True, order=True):
    """One window. ``trial`` is "" and ``block`` -1 outside trials. ``start_us`` is aligned."""

    target: str
    replica: str
    intent: str
    digest: str
    trial: str
    block: int
    start_us: int
    width_s: int


class WindowRevision(Struct, frozen=True, kw_only=True):
    """One published state of one window. ``cursor`` rises with every publication.

    ``revision`` is 0 while the window is open, 1 when it closes, and one more with every correction
    after that. ``closed``: the watermark has passed the window's end and lateness; later events
    make a new revision. ``incomplete``: the engine's sequence has a gap here, so no verdict may
    read it.
    """

    cursor: int
    key: WindowKey
    revision: int
    closed: bool
    incomplete: bool
    counts: WindowCounts


class RequestRow(Struct, frozen=True, kw_only=True):
    """One request as known now. ``good`` None: not decided yet (missing, never zero).

    ``deadline_us`` is a moment, not a span: unfinished then, the request has failed. ``counted``:
    at the edge; then nothing is known of it here but who and when, and no trial reads it.
    """

    request_id: str
    target: str
    replica: str
    incarnation: str
    version: int
    digest: str
    policies: tuple[str, ...]
    trial: str
    block: int
    arm: Arm | None
    intent: str
    class_: str
    arrival_us: int
    deadline_us: int | None
    finished_us: int | None
    status: Status | None
    prompt_tokens: int
    output_tokens: int
    max_tokens: int
    queue_us: int | None
    ttft_us: int | None
    tpot_us: int | None
    good: bool | None
    preemptions: int
    error: str | None
    external_id: str | None
    session_id: str | None
    counted: bool = False


class SecondRow(Struct, frozen=True, kw_only=True):
    """One ``second`` record of an engine: token rates and step sums, cut at stamp changes."""

    target: str
    replica: str
    incarnation: str
    from_us: int
    to_us: int
    digest: str
    trial: str
    block: int
    arm: Arm | None
    output_tokens: dict[str, int]
    arrivals: dict[str, int]
    offered_tokens: dict[str, int]
    waiting: dict[str, int]
    steps: StepMoments
    knobs: dict[str, int]


class EngineSeen(Struct, frozen=True, kw_only=True):
    """The last life sign of a replica, and the curve it measured at boot (None: not seen).

    ``clock`` is how its records' times stand to ours. ``kv``: None: not told.
    """

    target: str
    replica: str
    incarnation: str
    fingerprint: str | None
    curve: tuple[tuple[int, int, int], ...]
    last_us: int
    gaps: int
    dropped: int
    clock: ClockReport = ClockReport()
    kv: KvLayout | None = None


class Outcome(Struct, frozen=True, kw_only=True):
    """A business or semantic value joined to its request, once, for ever.

    ``definition`` is the version of the metric it was read by, ``model`` the one that gave a score.
    The rest is what the request arrived under (empty: joined before this was kept).
    """

    request_id: str
    metric: str
    value: float
    time_us: int
    producer: str
    event_id: str
    definition: int = 0
    model: str | None = None
    intent: str = ""
    digest: str = ""
    trial: str = ""
    block: int = -1
    arm: Arm | None = None
    policies: tuple[str, ...] = ()


class Features(Protocol):
    """Read access to the feature store, from any process. Raises ``Unavailable``.

    Read-only and lock-free for the writer. Lists come in a stable order; each call has a bound.
    """

    def watermark_us(self, target: str) -> int:
        """Event time up to which the target's engines have reported; 0 before the first."""

    def revisions(self, *, after: int, limit: int = 1000) -> Sequence[WindowRevision]:
        """5 s window revisions with ``cursor > after``, in cursor order, latest of each window."""

    def windows(
        self, target: str, *, from_us: int, to_us: int, width_s: int = ATOM_S
    ) -> Sequence[WindowRevision]:
        """The latest revision of each window that starts in [from, to).

        5 s windows from when they begin, minutes from when their first atom has closed, 5 min and
        1 h windows once they are closed themselves.
        """

    def arrived(self, target: str, *, from_us: int, width_s: int) -> Mapping[str, int]:
        """Requests that arrived from then on, by intent, from windows of at most that width.

        ``from_us`` is a start of such a window. Counted as known now.
        """

    def trial_requests(self, trial: str, *, block: int | None = None) -> Sequence[RequestRow]:
        """Every request that arrived under a trial (or one block of it), by arrival."""

    def trial_outcomes(self, trial: str, *, block: int) -> Sequence[Outcome]:
        """Values joined to requests that arrived in one block of a trial, by time."""

    def trial_seconds(self, trial: str, *, block: int | None = None) -> Sequence[SecondRow]:
        """Every second reported under a trial (or one block of it), by time."""

    def seconds(self, target: str, *, from_us: int, to_us: int) -> Sequence[SecondRow]:
        """Seconds that end in (from, to], by time."""

    def request(self, request_id: str) -> RequestRow | None:
        """One request, by its engine-minted id."""

    def find_requests(
        self, target: str, *, good: bool | None = None, intent: str | None = None, limit: int = 20
    ) -> Sequence[RequestRow]:
        """The latest requests that match, newest first."""

    def outcomes(self, request_id: str) -> Sequence[Outcome]:
        """Business values joined to a request, by time."""

    def engines(self, target: str) -> Sequence[EngineSeen]:
        """The replicas that have reported, latest incarnation of each."""

"""One request's stay with a simulated replica. Mutable: the scheduler and the replica write it."""

from __future__ import annotations

from msgspec.structs import replace

from engine.generation import CLASSES
from engine.simulated.offered import Offered
from policies.runtime_config import Stamp
from signals.events import Status
from signals.features.model import RequestRow
from signals.ids import uuid7


class Visit:
    """Times are simulated µs, None: not yet. The lower half is the scheduler's, while it runs.

    ``tokens``: prompt and what was drawn before it was (last) admitted; ``computed`` of them are in
    KV. ``joined``: the scheduler's step in which it drew its first token since then, so that what
    it drew by step s is known without touching it: ``emitted + s - joined``. ``ends``: the step
    that gives it its last token; None while it does not decode. ``shared``: KV blocks it leaves to
    the prefix cache, ``refs`` the hashes of them. ``row``: as it was told of last, ``settled`` once
    that is for good; before, ``told`` is the row with its judgement, and stands until ``stands_us``
    unless it ends.
    """

    __slots__ = (
        "admitted_us",
        "arrival_us",
        "computed",
        "emitted",
        "ends",
        "error",
        "finished_us",
        "first_us",
        "intent",
        "joined",
        "number",
        "offered",
        "order",
        "preemptions",
        "put_off",
        "rank",
        "refs",
        "residue",
        "row",
        "served",
        "settled",
        "shared",
        "stamp",
        "stands_us",
        "status",
        "tokens",
        "told",
    )

    stamp: Stamp
    """What it arrived under; written when its replica takes it in."""

    def __init__(self, number: int, offered: Offered, arrival_us: int) -> None:
        self.number = number
        self.offered = offered
        self.intent = offered.intent
        self.rank = CLASSES.index(offered.class_)
        self.arrival_us = arrival_us
        self.admitted_us: float | None = None
        self.first_us: float | None = None
        self.finished_us: float | None = None
        self.status: Status | None = None
        self.error: str | None = None
        self.preemptions = 0
        self.emitted = 0
        self.order = -1
        self.tokens = offered.prompt_tokens
        self.computed = 0
        self.joined = 0
        self.ends: int | None = None
        self.residue = 0
        self.served = 0
        self.put_off = -1
        self.shared = 0
        self.refs: list[int] = []
        self.row: RequestRow | None = None
        self.settled = False
        self.told: RequestRow | None = None
        self.stands_us = 0.0

    def request_id(self, target: str) -> str:
        """Engine-minted: the target, and an id that rises with time."""
        return f"{target}.{uuid7(self.arrival_us, self.number.to_bytes(8, 'big'))}"

    def bound(self, answer_tokens: int) -> None:
        """Its answer has at most so many tokens."""
        if answer_tokens < self.offered.output_tokens:
            self.offered = replace(self.offered, output_tokens=answer_tokens)

    def end(self, status: Status, at_us: float, error: str | None = None) -> None:
        """It is over."""
        self.status, self.finished_us, self.error = status, at_us, error

"""Requests as the ledger sees them."""

from __future__ import annotations

import os

from engine.generation import Generation, Progress
from engine.telemetry.ledger import EndedVisit, Visit
from policies.runtime_config import Stamp, TrialStamp
from signals.ids import uuid7

STAMP = Stamp(
    target="chat",
    replica="r0",
    incarnation="cafe",
    version=3,
    digest="0123456789abcdef",
    trial=TrialStamp(id="t1", block=4, arm="candidate"),
    policies=("p1",),
)
PARENT_TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT_SPAN = "b7ad6b7169203331"


def visit(wall_s: float, *, stamp: Stamp = STAMP, traceparent: str | None = None) -> Visit:
    """A request of seven tokens that arrived at monotonic 100 s."""
    generation = Generation(
        id=f"chat.{uuid7(round(wall_s * 1e6), os.urandom(8))}",
        prompt=(1, 2, 3, 4, 5, 6, 7),
        max_tokens=16,
        arrival_s=100.0,
        stamp=stamp,
        intent="live",
        session_id="s-1",
    )
    return Visit(generation=generation, arrival_wall_s=wall_s, traceparent=traceparent)


def ended(came: Visit, finish: str = "stop") -> EndedVisit:
    """Admitted after 0.1 s, first token after 0.3 s, five tokens by 0.7 s."""
    progress = Progress(
        admitted_s=100.1, first_token_s=100.3, last_token_s=100.7, output_tokens=5, preemptions=1
    )
    return EndedVisit(visit=came, finish=finish, progress=progress, ended_s=100.71)

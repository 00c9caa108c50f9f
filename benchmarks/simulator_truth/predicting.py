"""A real run's load, offered to the simulated engine: when each request would have had its tokens.

The load is given (arrivals, prompt and output lengths), as is what the engine was started with;
everything about time is predicted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.simulator_truth.measured import Request
from engine.simulated.fleet import Fleet
from engine.simulated.offered import Offered
from engine.simulated.spec import ReplicaSpec
from signals.errors import Broken
from signals.events import MICROS
from signals.features.model import RequestRow
from signals.settings import Slo

LOOK_S = 60
LONGEST_S = 3600
"""Every run that is predicted is over by then; whether it is, is looked at every ``LOOK_S``."""


def offered(requests: Sequence[Request]) -> Iterable[Offered]:
    """The requests as arrivals of one intent."""
    return (
        Offered(
            arrival_s=request.arrival_s,
            intent="live",
            class_="interactive",
            prompt_tokens=request.prompt_tokens,
            output_tokens=request.output_tokens,
        )
        for request in requests
    )


def predict(requests: Sequence[Request], spec: ReplicaSpec, *, seed: int) -> list[Request]:
    """The same requests in the same order with predicted times. They must be by arrival."""
    fleet = Fleet(
        replicas={"r0": spec},
        arrivals=iter(offered(requests)),
        slos={"live": Slo(ttft_ms=1000)},
        seed=seed,
    )
    rows = finished(fleet, len(requests), round(requests[-1].arrival_s))
    found = []
    for request, row in zip(requests, rows, strict=True):
        if row.ttft_us is None or row.finished_us is None:
            raise Broken(f"request {request.id} has not finished")
        found.append(
            Request(
                id=request.id,
                arrival_s=request.arrival_s,
                first_s=request.arrival_s + row.ttft_us / MICROS,
                last_s=row.finished_us / MICROS,
                prompt_tokens=request.prompt_tokens,
                output_tokens=request.output_tokens,
            )
        )
    return found


def finished(fleet: Fleet, requests: int, last_arrival_s: int) -> list[RequestRow]:
    """The rows by arrival, once all have finished. Raises Broken when they have not in time."""
    for until_s in range(last_arrival_s + LOOK_S, LONGEST_S, LOOK_S):
        fleet.run(until_s * MICROS)
        rows = fleet.requests(-1, until_s * MICROS)
        if len(rows) == requests and all(row.finished_us is not None for row in rows):
            return sorted(rows, key=lambda row: row.arrival_us)
    raise Broken(f"the simulated engine is not through {requests} requests within {LONGEST_S} s")

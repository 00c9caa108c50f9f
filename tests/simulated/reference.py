"""The embedded engine's own scheduler and block pool, stepped by the simulated engine's times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from engine.embedded.kv import BlockPool
from engine.embedded.scheduler import Scheduler
from engine.embedded.sequence import Sequence
from engine.generation import Generation, Limits
from engine.simulated.offered import Offered
from engine.simulated.step_times import StepTimes
from policies.runtime_config import Stamp
from tests.simulated.loads import SECOND_US

STAMP = Stamp(target="chat", replica="r0", incarnation="i", version=0, digest="d")


class Lived:
    """One request's first token, end, and preemptions."""

    def __init__(self, sequence: Sequence) -> None:
        self.sequence = sequence
        self.first_us: float | None = None
        self.finished_us: float | None = None


def live(
    offered: Iterable[Offered],
    times: StepTimes,
    *,
    kv_blocks: int,
    limits: Mapping[int, Limits],
    until_us: float,
) -> list[Lived]:
    """Every step that begins before ``until_us``. ``limits`` hold from the first boundary at or
    after their time."""
    scheduler = Scheduler(BlockPool(total=kv_blocks, slots=512, context=kv_blocks * 16))
    lives = [Lived(_sequence(number, one)) for number, one in enumerate(offered)]
    coming = sorted(lives, key=_arrival_us, reverse=True)
    by_id = {one.sequence.request.id: one for one in lives}
    at_us = 0.0
    while at_us < until_us:
        while coming and _arrival_us(coming[-1]) <= at_us:
            scheduler.enqueue(coming.pop().sequence)
        present = limits[max(since for since in limits if since <= at_us)]
        batch = scheduler.schedule(present, now_s=at_us)
        if not batch.chunks:
            changes = [since for since in limits if since > at_us]
            at_us = min([until_us, *changes, *[_arrival_us(one) for one in coming[-1:]]])
            continue
        at_us += times.step_us(decode=batch.decode, prefill=batch.prefill_tokens, context=0)
        for chunk in batch.chunks:
            sequence, draws = chunk.sequence, chunk.draws
            sequence.computed += chunk.count
            if draws:
                sequence.tokens.append(0)
                one = by_id[sequence.request.id]
                one.first_us = at_us if one.first_us is None else one.first_us
                if sequence.output_tokens == sequence.request.max_tokens:
                    one.finished_us = at_us
                    scheduler.finish(sequence)
        scheduler.check()
    return lives


def _arrival_us(lived: Lived) -> int:
    return round(lived.sequence.request.arrival_s * SECOND_US)


def _sequence(number: int, one: Offered) -> Sequence:
    return Sequence(
        Generation(
            id=str(number),
            prompt=(0,) * one.prompt_tokens,
            max_tokens=one.output_tokens,
            class_=one.class_,
            intent=one.intent,
            arrival_s=one.arrival_s,
            stamp=STAMP,
        ),
        lambda output: None,
    )

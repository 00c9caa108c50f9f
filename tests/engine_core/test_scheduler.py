"""The scheduler's promises, over random arrivals, limits and cancellations. No model needed: a
sequence's next token is its length."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from engine.embedded.kv import BlockPool
from engine.embedded.scheduler import Batch, Scheduler
from engine.embedded.sequence import Sequence
from engine.generation import CLASSES, Class, Limits
from policies.runtime_config import Shrink
from tests.engine_core.driving import Heard, request

CONTEXT = 128
SLOTS = 8


class Act(Struct, frozen=True):
    """One step of a random life: who arrives, who is cancelled, which limits hold."""

    arrivals: tuple[tuple[Class, int, int], ...]
    cancel: int | None
    limits: Limits


ARRIVALS = st.lists(
    st.tuples(st.sampled_from(CLASSES), st.integers(1, 100), st.integers(1, 27)), max_size=3
).map(tuple)
LIMITS = st.builds(
    Limits,
    active_cap=st.integers(1, SLOTS),
    step_token_budget=st.integers(1, 64),
    shrink=st.sampled_from(["drain", "preempt"]),
)
ACTS = st.lists(
    st.builds(Act, ARRIVALS, st.none() | st.integers(0, 30), LIMITS), min_size=1, max_size=30
)


class Life:
    """Drives a scheduler and checks every step against what it promises."""

    def __init__(self, blocks: int) -> None:
        self.scheduler = Scheduler(BlockPool(total=blocks, slots=SLOTS, context=CONTEXT))
        self.heard = Heard()
        self.everybody: list[Sequence] = []
        self.cancelled: set[str] = set()

    def arrive(self, class_: Class, prompt: int, max_tokens: int) -> None:
        name = f"r{len(self.everybody)}"
        asked = request(name, tuple(range(prompt)), max_tokens=max_tokens, class_=class_)
        self.everybody.append(Sequence(asked, self.heard))
        self.scheduler.enqueue(self.everybody[-1])

    def cancel(self, index: int) -> None:
        name = f"r{index}"
        if self.scheduler.remove(name) is not None:
            self.cancelled.add(name)

    def step(self, limits: Limits) -> Batch:
        ran_before = list(self.scheduler.running)
        waited = {name: list(line) for name, line in self.scheduler.waiting.items()}
        batch = self.scheduler.schedule(limits, now_s=1.0)
        self._check_batch(batch, limits)
        self._check_admission(ran_before, waited, limits, batch)
        self._commit(batch)
        self.scheduler.check()
        return batch

    def _check_batch(self, batch: Batch, limits: Limits) -> None:
        counted = sum(chunk.count for chunk in batch.chunks)
        assert counted <= limits.step_token_budget
        assert counted == batch.decode + batch.prefill_tokens
        assert len({id(chunk.sequence) for chunk in batch.chunks}) == len(batch.chunks)
        for chunk in batch.chunks:
            lease = chunk.sequence.lease
            assert chunk.sequence in self.scheduler.running and lease is not None
            assert chunk.start == chunk.sequence.computed
            assert chunk.start + chunk.count <= min(len(chunk.sequence.tokens), lease.tokens)
        ranks = [chunk.sequence.rank for chunk in batch.chunks]
        assert ranks[: batch.decode] == sorted(ranks[: batch.decode])
        assert ranks[batch.decode :] == sorted(ranks[batch.decode :])

    def _check_admission(
        self,
        before: list[Sequence],
        waited: dict[Class, list[Sequence]],
        limits: Limits,
        batch: Batch,
    ) -> None:
        admitted = [one for one in self.scheduler.running if one not in before]
        if admitted:
            assert len(self.scheduler.running) <= limits.active_cap
        if any(one.rank > 0 for one in admitted) and batch.preempted == 0:
            assert all(one in self.scheduler.running for one in waited[CLASSES[0]])
        if limits.shrink == "preempt" and len(self.scheduler.running) > limits.active_cap:
            assert all(one.rank == 0 for one in self.scheduler.running)

    def _commit(self, batch: Batch) -> None:
        for chunk in batch.chunks:
            chunk.sequence.computed += chunk.count
            if chunk.sequence.pending == 0:
                self._draw(chunk.sequence)

    def _draw(self, sequence: Sequence) -> None:
        token = len(sequence.tokens)
        output = sequence.accept(token, b"x", ended=False, context=CONTEXT, now_s=2.0)
        sequence.on_output(output)
        if output.finish is not None:
            self.scheduler.finish(sequence)

    def drain(self, limits: Limits) -> None:
        """Nothing more arrives: everybody must finish within the work there is."""
        bound = 20 * sum(len(one.tokens) + one.request.max_tokens for one in self.everybody) + 10
        for _ in range(bound):
            if self.scheduler.idle:
                return
            assert self.step(limits).chunks, "work waits and nothing runs"
        raise AssertionError(f"not idle after {bound} steps")

    def check_everybody_got_everything_once(self) -> None:
        for one in self.everybody:
            if one.request.id in self.cancelled:
                continue
            prompt = len(one.request.prompt)
            expected = min(one.request.max_tokens, CONTEXT - prompt)
            assert self.heard.tokens(one.request.id) == list(range(prompt, prompt + expected))
            assert self.heard.finish(one.request.id) == "length"
        assert self.scheduler.pool.free == self.scheduler.pool.total


@settings(max_examples=150, deadline=None)
@given(acts=ACTS, blocks=st.integers(8, 24), last=LIMITS)
def test_every_promise_holds_whatever_arrives_and_whatever_the_limits(
    acts: list[Act], blocks: int, last: Limits
) -> None:
    life = Life(blocks)
    for act in acts:
        for arrival in act.arrivals:
            life.arrive(*arrival)
        if act.cancel is not None:
            life.cancel(act.cancel)
        life.step(act.limits)
    life.drain(last)
    life.check_everybody_got_everything_once()


def limits(cap: int, budget: int = 64, shrink: Shrink = "drain") -> Limits:
    return Limits(active_cap=cap, step_token_budget=budget, shrink=shrink)


def full_life(*classes: Class, blocks: int = 64, max_tokens: int = 20) -> Life:
    life = Life(blocks)
    for class_ in classes:
        life.arrive(class_, 4, max_tokens)
    return life


def running(life: Life) -> list[str]:
    return [one.request.id for one in life.scheduler.running]


def test_a_cap_counts_those_who_run_already() -> None:
    life = full_life("batch", "batch", "batch", "batch")
    life.step(limits(2))
    life.step(limits(3))
    assert running(life) == ["r0", "r1", "r2"]


def test_a_cap_lowered_with_drain_kills_nobody_and_admits_nobody() -> None:
    life = full_life("batch", "batch", "batch", "batch", "batch", "batch", max_tokens=3)
    life.step(limits(4))
    life.step(limits(1))
    assert running(life) == ["r0", "r1", "r2", "r3"]
    life.step(limits(1))
    assert running(life) == [], "they finished"
    life.step(limits(1))
    assert running(life) == ["r4"]


def test_a_cap_lowered_with_preempt_puts_the_newest_batch_work_back() -> None:
    life = full_life("batch", "interactive", "batch", "batch")
    life.step(limits(4))
    assert running(life) == ["r1", "r0", "r2", "r3"]
    batch = life.step(limits(2, shrink="preempt"))
    assert running(life) == ["r1", "r0"]
    assert batch.preempted == 2
    assert [one.request.id for one in life.scheduler.waiting["batch"]] == ["r2", "r3"]
    life.drain(limits(8))
    life.check_everybody_got_everything_once()


def test_preempt_never_puts_interactive_work_back() -> None:
    life = full_life("interactive", "interactive", "batch")
    life.step(limits(3))
    life.step(limits(1, shrink="preempt"))
    assert running(life) == ["r0", "r1"]


def test_interactive_work_is_admitted_before_batch_that_came_first() -> None:
    life = full_life("batch", "batch", "interactive")
    life.step(limits(1))
    assert running(life) == ["r2"]


def test_a_prompt_comes_in_chunks_beside_decoding_sequences() -> None:
    life = Life(64)
    life.arrive("batch", 4, 20)
    life.step(limits(8))
    life.arrive("batch", 40, 2)
    seen = [life.step(limits(8, budget=17)) for _ in range(3)]
    assert [(one.decode, one.prefill_tokens) for one in seen] == [(1, 16), (1, 16), (1, 8)]


def test_with_a_budget_below_the_number_decoding_all_take_turns() -> None:
    life = full_life("batch", "batch", "batch", "batch", "batch", "batch", max_tokens=5)
    life.step(limits(6))
    for _ in range(6):
        life.step(limits(6, budget=3))
    assert {one.output_tokens for one in life.everybody} == {4}


def test_out_of_blocks_the_newest_batch_sequence_waits_and_loses_nothing() -> None:
    life = Life(8)
    life.arrive("batch", 30, 60)
    life.arrive("batch", 30, 60)
    life.arrive("interactive", 30, 60)
    life.drain(limits(8))
    life.check_everybody_got_everything_once()
    assert [one.preemptions > 0 for one in life.everybody] == [True, True, False]


def test_a_large_request_is_not_starved_by_small_ones() -> None:
    life = Life(8)
    life.arrive("batch", 16, 10)
    life.step(limits(8))
    life.arrive("batch", 110, 2)
    life.arrive("batch", 4, 2)
    while "r1" not in running(life):
        life.step(limits(8))
        assert "r2" not in running(life)[:-1], "the small one overtook"
    assert running(life)[0] == "r1"
    life.drain(limits(8))
    life.check_everybody_got_everything_once()


def test_a_sequence_that_gives_way_to_itself_leaves_its_turn_to_the_next() -> None:
    """Two decode in turns, one token a step; the younger needs a block when none is free."""
    life = Life(8)
    life.arrive(CLASSES[1], 60, 27)
    life.arrive(CLASSES[1], 30, 27)
    life.step(Limits(active_cap=2, step_token_budget=128, shrink="drain"))
    life.drain(Limits(active_cap=2, step_token_budget=1, shrink="drain"))
    assert any(one.preemptions for one in life.everybody)
    life.check_everybody_got_everything_once()

"""Who runs in the next step. Pure bookkeeping: no clock, no arithmetic of the model.

Continuous batching, decided anew for every step:

1. a lowered cap: with ``drain`` nobody is admitted until enough have finished; with ``preempt`` the
   newest batch sequences go back to waiting at once. Interactive sequences are never put back for
   a cap.
2. admit while fewer than the cap run (every running sequence counts): interactive before batch, in
   order of arrival; the first one that does not fit the KV pool holds back all behind it, so a
   large request is not starved by small ones.
3. one row for each decoding sequence, then prompts in chunks, until the step token budget is spent;
   interactive before batch in both.
4. no KV block left to grow into: the newest sequence of the lowest class goes back to waiting.

A request that alone fits the pool always gets through: the oldest of the highest class is never the
victim while another runs.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator

from msgspec import Struct

from engine.embedded.kv import BlockPool, blocks_for
from engine.embedded.sequence import Sequence
from engine.generation import CLASSES, Class, Limits


class Chunk(Struct, frozen=True):
    """``count`` tokens of one sequence from position ``start``."""

    sequence: Sequence
    start: int
    count: int

    @property
    def draws(self) -> bool:
        """Whether this chunk's last row yields the next token."""
        return self.start + self.count == len(self.sequence.tokens)


class Batch(Struct, frozen=True, kw_only=True):
    """One step's work, decoding sequences first."""

    chunks: tuple[Chunk, ...]
    decode: int
    prefill_tokens: int
    preempted: int


class Scheduler:
    """Waiting and running sequences over one block pool."""

    def __init__(self, pool: BlockPool) -> None:
        self.pool = pool
        self.waiting: dict[Class, deque[Sequence]] = {name: deque() for name in CLASSES}
        self.running: list[Sequence] = []
        self._step = 0
        self._preempted = 0

    @property
    def waits(self) -> int:
        """Waiting sequences of all classes, preempted ones included."""
        return sum(map(len, self.waiting.values()))

    @property
    def idle(self) -> bool:
        """Nothing waits and nothing runs."""
        return not self.running and not self.waits

    def enqueue(self, sequence: Sequence) -> None:
        """Put a new request behind its class."""
        self.waiting[sequence.request.class_].append(sequence)

    def remove(self, request_id: str) -> Sequence | None:
        """Take a request out, wherever it is, and free its blocks. None when it is not here."""
        found = next((one for one in self._everybody() if one.request.id == request_id), None)
        if found is None:
            return None
        if found in self.running:
            self._release(found)
        else:
            self.waiting[found.request.class_].remove(found)
        return found

    def clear(self) -> list[Sequence]:
        """Take everybody out, running first, and free their blocks."""
        everybody = list(self._everybody())
        for sequence in list(self.running):
            self._release(sequence)
        for line in self.waiting.values():
            line.clear()
        return everybody

    def finish(self, sequence: Sequence) -> None:
        """A running sequence is done: free its blocks."""
        self._release(sequence)

    def schedule(self, limits: Limits, *, now_s: float) -> Batch:
        """Decide the next step, preempting and admitting as described above."""
        self._step += 1
        self._preempted = 0
        if limits.shrink == "preempt":
            self._shrink(limits.active_cap)
        self._admit(limits.active_cap, now_s)
        decoding = self._decoding(limits.step_token_budget)
        chunks = [Chunk(one, one.computed, 1) for one in decoding]
        prefill = list(self._prefilling(limits.step_token_budget - len(chunks)))
        return Batch(
            chunks=(*chunks, *prefill),
            decode=len(chunks),
            prefill_tokens=sum(chunk.count for chunk in prefill),
            preempted=self._preempted,
        )

    def counts(self) -> tuple[dict[str, int], dict[str, int]]:
        """Per intent: waiting, running."""
        waiting = Counter(one.request.intent for line in self.waiting.values() for one in line)
        return dict(waiting), dict(Counter(one.request.intent for one in self.running))

    def check(self) -> None:
        """Raise ``Broken`` when KV blocks leaked."""
        self.pool.check(one.lease for one in self.running if one.lease is not None)

    def _everybody(self) -> Iterator[Sequence]:
        yield from self.running
        for line in self.waiting.values():
            yield from line

    def _shrink(self, cap: int) -> None:
        batch = [one for one in self.running if one.request.class_ == CLASSES[-1]]
        for victim in reversed(batch):
            if len(self.running) <= cap:
                return
            self._preempt(victim)

    def _admit(self, cap: int, now_s: float) -> None:
        for name in CLASSES:
            line = self.waiting[name]
            while line and len(self.running) < cap:
                if not self._start(line[0], now_s):
                    return
                line.popleft()

    def _start(self, sequence: Sequence, now_s: float) -> bool:
        """Lease blocks for all its tokens; others that run keep one block each to grow into."""
        if self.running and self.pool.free < len(self.running) + blocks_for(len(sequence.tokens)):
            return False
        sequence.lease = self.pool.lease(len(sequence.tokens))
        if sequence.lease is None:
            return False
        if sequence.admitted_s is None:
            sequence.admitted_s = now_s
        self.running.append(sequence)
        return True

    def _decoding(self, budget: int) -> list[Sequence]:
        """Up to ``budget`` decoding sequences, each with room for its token. When not all fit the
        budget, those of a class that waited longest go first."""
        kept: list[Sequence] = []
        for sequence in sorted(
            (one for one in self.running if one.pending == 1),
            key=lambda one: (one.rank, one.served),
        ):
            if len(kept) == budget:
                break
            self._make_room(sequence)
            kept.append(sequence)
            if self._preempted:  # perhaps of itself: then the next one has its place
                kept = [one for one in kept if one.lease is not None]
        for sequence in kept:
            sequence.served = self._step
        return kept

    def _prefilling(self, budget: int) -> Iterator[Chunk]:
        for sequence in sorted(self.running, key=lambda one: one.rank):
            if budget > 0 and sequence.pending > 1:
                chunk = Chunk(sequence, sequence.computed, min(sequence.pending, budget))
                budget -= chunk.count
                yield chunk

    def _make_room(self, sequence: Sequence) -> None:
        """A block for the next token, if need be another's; may preempt ``sequence`` itself."""
        while sequence.lease is not None and sequence.lease.tokens < len(sequence.tokens):
            if not self.pool.grow(sequence.lease):
                newest = max(range(len(self.running)), key=lambda at: (self.running[at].rank, at))
                self._preempt(self.running[newest])

    def _preempt(self, sequence: Sequence) -> None:
        """Back to the head of its line, to be computed again. Nothing drawn is lost."""
        self._release(sequence)
        sequence.computed = 0
        sequence.preemptions += 1
        self._preempted += 1
        self.waiting[sequence.request.class_].appendleft(sequence)

    def _release(self, sequence: Sequence) -> None:
        self.running.remove(sequence)
        if sequence.lease is not None:
            self.pool.release(sequence.lease)
            sequence.lease = None

"""Who runs in the next step, for many steps at once: the embedded scheduler's rules, by arithmetic.

The rules are those of ``engine/embedded/scheduler.py``: interactive before batch, in order of
arrival, up to the cap; a lowered cap drains or preempts the newest of the lowest class; every
decoding sequence gets one token a step and what the step token budget leaves goes to prompts; when
no KV block is left to grow into, the newest of the lowest class goes back to be computed again. The
first that does not fit holds back all behind it.

The idea: while nobody comes, ends, or waits for memory, a step changes nothing but a counter. So a
decoding sequence is not touched at each step. Kept are the step in which each ends (a heap) and,
for the KV pool, how many of them need another block at each step modulo the block's tokens. Then a
run of n such steps costs the sum of n times, whatever the number of sequences.

When more decode than the budget serves, those unserved for longest come first and the others are
put off by a step, one by one; that is slow, and rare.

Memory: ``capacity`` is what the engine believes it has, ``memory`` what fits. Retained prefix
blocks are a reservation: admission leaves them alone unless nothing runs, growth takes them before
it preempts.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Iterator, Mapping

from msgspec import Struct

from engine.generation import CLASSES, Class, Limits
from engine.simulated.prefix_cache import PrefixCache
from engine.simulated.visit import Visit

Chunk = tuple[Visit, int]


class Step(Struct, frozen=True):
    """One step's work: decoding sequences, prompt tokens, context read, KV blocks held after it.
    ``drawing``: the decoding sequences by intent; good until ``commit``."""

    decode: int
    prefill: int
    context: int
    blocks: int
    drawing: Mapping[str, int]


class Scheduler:
    """See the module. ``used`` counts KV blocks of running sequences and of the cache; ``waits_of``
    the waiting and ``decoding`` the decoding sequences of each intent."""

    def __init__(self, *, capacity: int, block_tokens: int, cache: PrefixCache | None) -> None:
        self.capacity = self.memory = capacity
        self.cache = cache
        self.waiting: dict[Class, deque[Visit]] = {name: deque() for name in CLASSES}
        self.running: dict[int, Visit] = {}
        self.waits_of: Counter[str] = Counter()
        self.decoding: dict[str, int] = {}
        self.decodes = self.context = self.used = self.steps = self.preempted = 0
        self._block_tokens = block_tokens
        self._grows = [0] * block_tokens
        self._prefilling: list[Visit] = []
        self._ending: list[tuple[int, int, Visit]] = []
        self._chunks: list[Chunk] = []
        self._served: list[Visit] | None = None
        self._admitted = 0

    # -- what the replica asks -----------------------------------------------------------------

    @property
    def waits(self) -> int:
        """Waiting requests of all classes, preempted ones included."""
        return sum([len(line) for line in self.waiting.values()])

    @property
    def prefilling(self) -> bool:
        """Whether a running sequence still computes its prompt."""
        return bool(self._prefilling)

    def everybody(self) -> Iterator[Visit]:
        """Running, then waiting."""
        yield from self.running.values()
        for line in self.waiting.values():
            yield from line

    def fits(self, tokens: int) -> bool:
        """Whether a request of so many tokens in all can ever run."""
        return self._blocks(tokens) <= self.capacity

    def enqueue(self, visit: Visit) -> None:
        """Put a new request behind its class."""
        self.waiting[visit.offered.class_].append(visit)
        self.waits_of[visit.intent] += 1

    def trim(self) -> None:
        """Let go of what the cache keeps beyond its retention."""
        if self.cache is not None:
            self.used -= self.cache.trim()

    def admit(self, limits: Limits, at_us: float) -> None:
        """Shrink if asked to, then let in whom cap and memory allow."""
        cap = limits.active_cap
        if limits.shrink == "preempt" and len(self.running) > cap:
            self._shrink(cap)
        for line in self.waiting.values():
            while line and len(self.running) < cap:
                if not self._start(line[0], at_us):
                    return
                self.waits_of[line.popleft().intent] -= 1

    # -- a run of equal steps ------------------------------------------------------------------

    def run_length(self, budget: int) -> int:
        """Steps of pure decoding before one ends or memory may not do; 0: take a ``plan`` step."""
        if self._prefilling or not 0 < self.decodes <= budget:
            return 0
        while True:
            ends, order, visit = self._ending[0]
            if visit.ends == ends and visit.order == order:
                return self._within_memory(ends - self.steps)
            heapq.heappop(self._ending)

    def pass_steps(self, count: int) -> list[Visit]:
        """``count`` such steps were taken; who ended with the last of them."""
        tokens = self._block_tokens
        whole, part = divmod(count, tokens)
        grown = whole * self.decodes
        for ahead in range(1, part + 1):
            grown += self._grows[(self.steps + ahead) % tokens]
        self.used += grown
        self.steps += count
        self.context += count * self.decodes
        return self._end_due()

    # -- a step with prompts, or under pressure ------------------------------------------------

    def plan(self, budget: int) -> Step:
        """Decide one step, preempting where memory lacks. To be followed by ``commit``."""
        served = self._make_room(budget)
        self._served = served
        decode, context, drawing = self.decodes, self.context, self.decoding
        if served is not None:
            decode = len(served)
            context = sum(visit.tokens + self.steps - visit.joined for visit in served)
            drawing = Counter(visit.intent for visit in served)
        self._chunks, left = [], budget - decode
        for visit in self._prefilling:
            if left <= 0:
                break
            count = min(visit.tokens - visit.computed, left)
            self._chunks.append((visit, count))
            context += visit.computed
            left -= count
        after = self.used + self._next_growth()
        return Step(decode, budget - decode - left, context, after, drawing)

    def commit(self) -> tuple[list[Visit], list[Visit]]:
        """The planned step was taken: who drew the first token since admission, who ended."""
        self.used += self._next_growth()
        self.steps += 1
        self.context += self.decodes if self._served is None else len(self._served)
        if self._served is not None:
            self._put_off_others(self._served)
        drew = []
        for visit, count in self._chunks:
            visit.computed += count
            if visit.computed == visit.tokens:
                drew.append(visit)
                self._join(visit)
        return drew, self._end_due()

    # -- admission and its reverse -------------------------------------------------------------

    def _start(self, visit: Visit, at_us: float) -> bool:
        cache, offered = self.cache, visit.offered
        hits = cost = 0
        if cache is not None and offered.prefix:
            cost = offered.prefix_tokens // self._block_tokens
            hits = min(cache.leading(offered.prefix), (visit.tokens - 1) // offered.prefix_tokens)
        own = self._blocks(visit.tokens) - hits * cost
        spare = len(self.running)
        if cache is not None and not spare and self.used + own > self.capacity:
            cache.take(offered.prefix[:hits])
            while self.used + own > self.capacity and (freed := cache.evict()):
                self.used -= freed
            self.used -= cache.give_back(offered.prefix[:hits])
        if self.used + own + spare > self.capacity:
            return False
        if cache is not None:
            visit.refs = list(offered.prefix[:hits])
            cache.take(visit.refs)
            cache.lookups += visit.tokens
            cache.hits += hits * offered.prefix_tokens
        visit.shared = hits * cost
        visit.computed = hits * offered.prefix_tokens if hits else 0
        if visit.admitted_us is None:
            visit.admitted_us = at_us
        self._admitted += 1
        visit.order = self._admitted
        visit.ends = None
        self.used += own
        self.running[visit.order] = visit
        self._prefilling.append(visit)
        if len(self._prefilling) > 1:
            self._prefilling.sort(key=lambda one: (one.rank, one.order))
        return True

    def _join(self, visit: Visit) -> None:
        """Its prompt is computed and its token drawn: it decodes from the next step on."""
        self._prefilling.remove(visit)
        self._leave_prefix(visit)
        visit.emitted += 1
        visit.joined = self.steps
        visit.ends = self.steps + visit.offered.output_tokens - visit.emitted
        visit.residue = (visit.joined + 1 - visit.tokens) % self._block_tokens
        self._grows[visit.residue] += 1
        self.decodes += 1
        self.decoding[visit.intent] = self.decoding.get(visit.intent, 0) + 1
        self.context += visit.tokens
        heapq.heappush(self._ending, (visit.ends, visit.order, visit))

    def _leave_prefix(self, visit: Visit) -> None:
        offered, cache = visit.offered, self.cache
        if cache is None or not offered.prefix or not cache.retention:
            return
        whole = min(len(offered.prefix), offered.prompt_tokens // offered.prefix_tokens)
        cost = offered.prefix_tokens // self._block_tokens
        for one in offered.prefix[len(visit.refs) : whole]:
            if not cache.put(one, kv_blocks=cost):
                return
            visit.refs.append(one)
            visit.shared += cost

    def _leave(self, visit: Visit) -> None:
        """Out of the running, its blocks given back; what it drew is written down."""
        del self.running[visit.order]
        tokens = visit.tokens
        if visit.ends is None:
            self._prefilling.remove(visit)
        else:
            visit.served = self._last_served(visit)
            drawn = self.steps - visit.joined
            tokens += drawn
            visit.emitted += drawn
            visit.ends = None
            self._grows[visit.residue] -= 1
            self.decodes -= 1
            self.decoding[visit.intent] -= 1
            self.context -= tokens
        self.used -= self._blocks(tokens) - visit.shared
        if self.cache is not None and visit.refs:
            self.used -= self.cache.give_back(visit.refs)
        visit.refs, visit.shared = [], 0

    def _end_due(self) -> list[Visit]:
        ended = []
        while self._ending and self._ending[0][0] <= self.steps:
            ends, order, visit = heapq.heappop(self._ending)
            if visit.ends == ends and visit.order == order:
                self._leave(visit)
                ended.append(visit)
        return ended

    # -- memory --------------------------------------------------------------------------------

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self._block_tokens)

    def _next_growth(self) -> int:
        return self._grows[(self.steps + 1) % self._block_tokens]

    def _within_memory(self, most: int) -> int:
        free = min(self.capacity, self.memory) - self.used
        tokens = self._block_tokens
        if self.decodes * (most // tokens + 1) <= free:
            return most
        for count in range(most):
            free -= self._grows[(self.steps + 1 + count) % tokens]
            if free < 0:
                return count
        return most

    def _make_room(self, budget: int) -> list[Visit] | None:
        """Whom of the decoding the next step serves, with room for each; None: all."""
        while self.decodes > budget:
            decoding = self._by_turn()
            if self._has_room(self._growing(decoding[:budget])):
                self._put_off(decoding[budget:])
                return decoding[:budget]
            self._free_some()
        while not self._has_room(self._next_growth()):
            self._free_some()
        return None

    def _has_room(self, blocks: int) -> bool:
        return self.used + blocks <= self.capacity

    def _free_some(self) -> None:
        freed = 0 if self.cache is None else self.cache.evict()
        self.used -= freed
        if not freed:
            self._preempt(self._newest())

    def _newest(self) -> Visit:
        return max(self.running.values(), key=lambda one: (one.rank, one.order))

    def _shrink(self, cap: int) -> None:
        batch = [one for one in self.running.values() if one.rank == len(CLASSES) - 1]
        for victim in reversed(batch):
            if len(self.running) <= cap:
                return
            self._preempt(victim)

    def _preempt(self, visit: Visit) -> None:
        """Back to the head of its line, to be computed again. Nothing drawn is lost."""
        self._leave(visit)
        visit.tokens = visit.offered.prompt_tokens + visit.emitted
        visit.computed = 0
        visit.preemptions += 1
        self.preempted += 1
        self.waiting[visit.offered.class_].appendleft(visit)
        self.waits_of[visit.intent] += 1

    # -- more decode than the budget serves ----------------------------------------------------

    def _by_turn(self) -> list[Visit]:
        """The decoding, unserved for longest first in each class."""
        decoding = [visit for visit in self.running.values() if visit.ends is not None]
        decoding.sort(key=lambda one: (one.rank, self._last_served(one)))
        return decoding

    def _growing(self, visits: list[Visit]) -> int:
        due = (self.steps + 1) % self._block_tokens
        return sum(visit.residue == due for visit in visits)

    def _put_off(self, visits: list[Visit]) -> None:
        """Before the step: these grow a step later than they would have."""
        for visit in visits:
            self._grow_later(visit)

    def _put_off_others(self, served: list[Visit]) -> None:
        """After the step: everything about the unserved is one step later."""
        chosen = set(map(id, served))
        for visit in self.running.values():
            if visit.ends is not None and id(visit) not in chosen:
                visit.served = self._last_served(visit, before=1)
                visit.put_off = self.steps
                visit.joined += 1
                visit.ends += 1
                heapq.heappush(self._ending, (visit.ends, visit.order, visit))

    def _last_served(self, visit: Visit, before: int = 0) -> int:
        """The step that last gave a decoding sequence a token, by ``before`` steps ago."""
        step = self.steps - before
        return visit.served if step in (visit.put_off, visit.joined) else step

    def _grow_later(self, visit: Visit) -> None:
        self._grows[visit.residue] -= 1
        visit.residue = (visit.residue + 1) % self._block_tokens
        self._grows[visit.residue] += 1

"""One step of the engine, on one screen. No threads here: ``worker.py`` calls it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np

from engine.embedded.kernels.calling import CHOICE
from engine.embedded.model import Ints, Model, Rows
from engine.embedded.scheduler import Batch, Chunk, Scheduler
from engine.embedded.sequence import Sequence
from engine.embedded.tokenizer import ChatTokenizer
from engine.generation import Boundary, Limits, Load, Output, StepRecord

OnStep = Callable[[StepRecord], None]
Clock = Callable[[], float]
SEED_RANGE = 2**64


class Core:
    """Scheduler and model, stepped. ``clock`` is monotonic seconds."""

    def __init__(
        self,
        *,
        model: Model,
        tokenizer: ChatTokenizer,
        scheduler: Scheduler,
        boundary: Boundary,
        on_step: OnStep,
        clock: Clock,
    ) -> None:
        self.scheduler = scheduler
        self._model = model
        self._tokenizer = tokenizer
        self._boundary = boundary
        self._on_step = on_step
        self._clock = clock
        self._eos = frozenset(model.shape.eos)
        self._was_idle = True

    def step(self) -> StepRecord | None:
        """Reach a boundary, run one iteration over every running sequence, hand out tokens.

        None when there was nothing to run. Raises ``Broken`` when KV blocks leaked.
        """
        limits = self._boundary(self.load())
        began_s = self._clock()
        batch = self.scheduler.schedule(limits, now_s=began_s)
        if not batch.chunks:
            self._rest()
            return None
        drawn = self._forward(batch)
        outputs = self._commit(batch, drawn)
        self._was_idle = False
        return self._record(batch, limits, outputs, began_s)

    def cancel(self, request_id: str) -> None:
        """Free a request's blocks now and end it as cancelled. Unknown ids are ignored."""
        sequence = self.scheduler.remove(request_id)
        if sequence is not None:
            sequence.on_output(sequence.output(sequence.text.flush(), finish="cancelled"))

    def load(self) -> Load:
        """Where the engine stands now."""
        waiting, running = self.scheduler.counts()
        pool = self.scheduler.pool
        return Load(
            waiting=waiting, running=running, kv_blocks_used=pool.used, kv_blocks_total=pool.total
        )

    def close(self) -> None:
        """Free the model's threads and scratch."""
        self._model.close()

    def _forward(self, batch: Batch) -> list[int]:
        """One drawn token per chunk that draws, in the chunks' order."""
        return [int(token) for token in self._model.step(rows(batch, self.scheduler.pool.tables))]

    def _commit(self, batch: Batch, drawn: list[int]) -> list[tuple[Sequence, Output]]:
        """Take the step's tokens in; finished sequences free their blocks before anyone hears."""
        now_s = self._clock()
        drawing = [chunk.sequence for chunk in batch.chunks if chunk.draws]
        for chunk in batch.chunks:
            chunk.sequence.computed += chunk.count
        outputs = [
            (sequence, self._accept(sequence, token, now_s))
            for sequence, token in zip(drawing, drawn, strict=True)
        ]
        for sequence, output in outputs:
            if output.finish is not None:
                self.scheduler.finish(sequence)
        for sequence, output in outputs:
            sequence.on_output(output)
        return outputs

    def _accept(self, sequence: Sequence, token: int, now_s: float) -> Output:
        return sequence.accept(
            token,
            self._tokenizer.token_bytes(token),
            ended=token in self._eos,
            context=self._model.context,
            now_s=now_s,
        )

    def _record(
        self,
        batch: Batch,
        limits: Limits,
        outputs: list[tuple[Sequence, Output]],
        began_s: float,
    ) -> StepRecord:
        record = StepRecord(
            began_s=began_s,
            took_s=self._clock() - began_s,
            decode=batch.decode,
            prefill_tokens=batch.prefill_tokens,
            output_tokens=dict(Counter(sequence.request.intent for sequence, _ in outputs)),
            preempted=batch.preempted,
            limits=limits,
        )
        self._on_step(record)
        return record

    def _rest(self) -> None:
        """Just become idle: the moment when every block must be back."""
        if self.scheduler.idle and not self._was_idle:
            self.scheduler.check()
            self._was_idle = True


def rows(batch: Batch, tables: Ints) -> Rows:
    """A batch as the kernels take it: one row per token, chunk after chunk."""
    counts = [chunk.count for chunk in batch.chunks]
    ends = np.cumsum(counts, dtype=np.int32)
    tokens = [
        token
        for chunk in batch.chunks
        for token in chunk.sequence.tokens[chunk.start : chunk.start + chunk.count]
    ]
    positions = [np.arange(c.start, c.start + c.count, dtype=np.int32) for c in batch.chunks]
    drawing = [at for at, chunk in enumerate(batch.chunks) if chunk.draws]
    return Rows(
        tokens=np.array(tokens, dtype=np.int32),
        positions=np.concatenate(positions),
        sequence=np.repeat(np.array([slot(c) for c in batch.chunks], dtype=np.int32), counts),
        tables=tables,
        chosen=ends[drawing] - 1,
        choices=np.array([choice(batch.chunks[at].sequence) for at in drawing], dtype=CHOICE),
    )


def slot(chunk: Chunk) -> int:
    """The row of the block tables that a scheduled chunk's sequence holds."""
    lease = chunk.sequence.lease
    return -1 if lease is None else lease.slot


def choice(sequence: Sequence) -> tuple[float, float, int, int]:
    """How the next token is drawn: by (seed, position) alone, never by who runs beside."""
    request = sequence.request
    return request.temperature, request.top_p, request.seed % SEED_RANGE, len(sequence.tokens)

"""Requests, and a scheduler or core driven step by step with limits that change in flight."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from engine.embedded.core import Core
from engine.embedded.kv import BlockPool
from engine.embedded.model import Model
from engine.embedded.scheduler import Scheduler
from engine.embedded.sequence import Sequence
from engine.embedded.tokenizer import ChatTokenizer
from engine.generation import Class, Generation, Limits, Load, Output, StepRecord
from policies.runtime_config import Stamp

STAMP = Stamp(target="chat", replica="one", incarnation="i", version=1, digest="d")
WIDE = Limits(active_cap=64, step_token_budget=512)


def request(
    name: str,
    prompt: tuple[int, ...],
    *,
    max_tokens: int,
    temperature: float = 1.0,
    top_p: float = 1.0,
    seed: int = 0,
    stop: tuple[str, ...] = (),
    class_: Class = "batch",
) -> Generation:
    return Generation(
        id=name,
        prompt=prompt,
        max_tokens=max_tokens,
        temperature=temperature,
        top_p=top_p,
        seed=seed,
        stop=stop,
        class_=class_,
        intent=class_,
        arrival_s=0.0,
        stamp=STAMP,
    )


class Heard:
    """Collects outputs, per request."""

    def __init__(self) -> None:
        self.outputs: dict[str, list[Output]] = {}

    def __call__(self, output: Output) -> None:
        self.outputs.setdefault(output.id, []).append(output)

    def tokens(self, name: str) -> list[int]:
        return [token for output in self.outputs[name] for token in output.tokens]

    def text(self, name: str) -> str:
        return "".join(output.text for output in self.outputs[name])

    def finish(self, name: str) -> str | None:
        return self.outputs[name][-1].finish


class Driven:
    """A core whose limits come from an iterator, one per step; the last one stays."""

    def __init__(
        self,
        model: Model,
        tokenizer: ChatTokenizer,
        limits: Iterable[Limits] = (),
        blocks: int = 512,
    ) -> None:
        self.heard = Heard()
        self.records: list[StepRecord] = []
        self.loads: list[Load] = []
        self._limits: Iterator[Limits] = iter(limits)
        self._last = WIDE
        self.pool = BlockPool(total=blocks, slots=64, context=model.context)
        self.scheduler = Scheduler(self.pool)
        self._now_s = 0.0
        self.core = Core(
            model=model,
            tokenizer=tokenizer,
            scheduler=self.scheduler,
            boundary=self._boundary,
            on_step=self.records.append,
            clock=self._clock,
        )

    def add(self, *requests: Generation) -> None:
        for one in requests:
            self.scheduler.enqueue(Sequence(one, self.heard))

    def run(self, steps: int = 100_000) -> None:
        """Step until nothing is left, checking for leaks after every step."""
        for _ in range(steps):
            if self.core.step() is None:
                return
            self.scheduler.check()
        raise AssertionError(f"still busy after {steps} steps")

    def _boundary(self, load: Load) -> Limits:
        self.loads.append(load)
        self._last = next(self._limits, self._last)
        return self._last

    def _clock(self) -> float:
        self._now_s += 0.001
        return self._now_s

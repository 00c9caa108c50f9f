"""Tokens per second of the embedded engine, beside Hugging Face ``generate`` in the same run.

    python -m benchmarks.engine [--tokens 64] [--repeats 3]

Same weights, bf16, same prompts and lengths, prefill included in every figure, end tokens ignored
on both sides; both with one and with two threads. The last line is one JSON object: ours with the
thread count that is faster at one request, Hugging Face with the one that is faster for it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import torch
from msgspec import Struct
from msgspec.structs import replace
from transformers import LlamaForCausalLM

from benchmarks.published import published_model
from engine import models
from engine.embedded import weights
from engine.embedded.build import open_model
from engine.embedded.core import Core
from engine.embedded.kv import BlockPool
from engine.embedded.scheduler import Scheduler
from engine.embedded.sequence import Sequence
from engine.generation import Generation, Limits, Output
from engine.settings import EngineSettings
from policies.runtime_config import Stamp

SEED = 20_260_101
PROMPT_TOKENS = 64
PREFILL_TOKENS = 512
CONCURRENT = (1, 8, 32)
THREADS = (1, 2)
WIDE = Limits(active_cap=64, step_token_budget=512)
STAMP = Stamp(target="bench", replica="bench", incarnation="bench", version=1, digest="")


class Figures(Struct, frozen=True, kw_only=True):
    """Tokens per second of one configuration."""

    threads: int
    generated: dict[int, float]
    prefill: float


class Bench:
    """One opened engine, stepped without a server around it."""

    def __init__(self, threads: int) -> None:
        self.settings = EngineSettings(threads=threads)
        self.model, self.tokenizer, _ = open_model(self.settings)
        self.model.shape = replace(self.model.shape, eos=())

    def run(
        self, asked: list[Generation], limits: Iterator[Limits] | None = None
    ) -> tuple[float, dict[str, list[int]]]:
        """Seconds until all are answered, and their token ids."""
        tokens: dict[str, list[int]] = {one.id: [] for one in asked}
        steps = limits or itertools.repeat(WIDE)

        def hear(output: Output) -> None:
            tokens[output.id].extend(output.tokens)

        core = Core(
            model=self.model,
            tokenizer=self.tokenizer,
            scheduler=Scheduler(BlockPool(total=2048, slots=64, context=self.settings.context)),
            boundary=lambda load: next(steps),
            on_step=lambda record: None,
            clock=time.monotonic,
        )
        began_s = time.perf_counter()
        for one in asked:
            core.scheduler.enqueue(Sequence(one, hear))
        while core.step() is not None:
            pass
        return time.perf_counter() - began_s, tokens


def prompt(rng: random.Random, length: int) -> tuple[int, ...]:
    """Random words: what they say does not change what a step costs."""
    return tuple(rng.randrange(1000, 40_000) for _ in range(length))


def requests(count: int, length: int, max_tokens: int, temperature: float) -> list[Generation]:
    """``count`` requests with the seeds and prompts of every run."""
    rng = random.Random(SEED)
    return [
        Generation(
            id=f"r{at}",
            prompt=prompt(rng, length),
            max_tokens=max_tokens,
            seed=at,
            temperature=temperature,
            arrival_s=0.0,
            stamp=STAMP,
        )
        for at in range(count)
    ]


def measured(bench: Bench, asked: list[Generation], tokens: int, repeats: int) -> float:
    """Median tokens per second."""
    bench.run(asked)
    return tokens / median(bench.run(asked)[0] for _ in range(repeats))


def ours(bench: Bench, tokens: int, repeats: int) -> Figures:
    """The engine's figures."""
    generated = {
        n: measured(bench, requests(n, PROMPT_TOKENS, tokens, 0.0), n * tokens, repeats)
        for n in CONCURRENT
    }
    prefill = measured(bench, requests(1, PREFILL_TOKENS, 1, 0.0), PREFILL_TOKENS, repeats)
    return Figures(threads=bench.settings.threads, generated=generated, prefill=prefill)


def reference(settings: EngineSettings) -> LlamaForCausalLM:
    """The same prepared weights in Hugging Face's Llama, bf16."""
    found = models.locate(settings.cache)
    folder = weights.prepare(found.path, digest=found.digest, cache=settings.cache)
    shape, tensors = weights.load(folder)
    return published_model(shape, tensors, torch.bfloat16)


def theirs(model: LlamaForCausalLM, threads: int, tokens: int, repeats: int) -> Figures:
    """Hugging Face's figures: one request, and prefill."""
    torch.set_num_threads(threads)

    def generate(length: int, new: int) -> float:
        ids = torch.tensor([requests(1, length, new, 0.0)[0].prompt])
        began_s = time.perf_counter()
        with torch.inference_mode():
            model.generate(
                ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=new
            )
        return time.perf_counter() - began_s

    def rate(length: int, new: int, counted: int) -> float:
        generate(length, new)
        return counted / median(generate(length, new) for _ in range(repeats))

    return Figures(
        threads=threads,
        generated={1: rate(PROMPT_TOKENS, tokens, tokens)},
        prefill=rate(PREFILL_TOKENS, 1, PREFILL_TOKENS),
    )


def same_ids(bench: Bench, tokens: int) -> bool:
    """Sampled ids of eight requests, alone and together while cap and budget move."""
    asked = requests(8, PROMPT_TOKENS, tokens, 1.0)
    rng = random.Random(SEED)

    def moving() -> Iterator[Limits]:
        while True:
            yield Limits(
                active_cap=rng.randint(1, 8),
                step_token_budget=rng.choice((16, 64, 512)),
                shrink=rng.choice(("drain", "preempt")),
            )

    together = bench.run(asked, moving())[1]
    return all(bench.run([one])[1][one.id] == together[one.id] for one in asked)


def table(rows: list[tuple[str, Figures]]) -> str:
    """Figures side by side."""
    head = ["", *(f"{n} concurrent" for n in CONCURRENT), f"prefill {PREFILL_TOKENS}"]
    lines = [" ".join(f"{cell:>14}" for cell in head)]
    for name, figures in rows:
        cells = [figures.generated.get(n) for n in CONCURRENT] + [figures.prefill]
        shown = ["-" if cell is None else f"{cell:.1f}" for cell in cells]
        lines.append(" ".join(f"{cell:>14}" for cell in [name, *shown]))
    return "\n".join(lines)


def hardware() -> str:
    """CPU, cores and the load that others put on them."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    model = named[0] if named else platform.processor() or platform.machine()
    load = ", ".join(f"{value:.2f}" for value in os.getloadavg())
    return f"{model}, {os.cpu_count()} cores, load average {load}"


def best(figures: list[Figures]) -> Figures:
    """The thread count that is faster at one request."""
    return max(figures, key=lambda one: one.generated[1])


def main(say: Callable[[str], None] = print) -> None:
    """Run everything and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tokens", type=int, default=64, help="tokens generated per request")
    parser.add_argument("--repeats", type=int, default=3, help="runs per figure; the median counts")
    options = parser.parse_args()
    models.fetch(cache=EngineSettings().cache, say=say)
    say(f"hardware       {hardware()}")
    say(f"seed           {SEED}; {PROMPT_TOKENS} tokens in, {options.tokens} out, greedy")
    mine: list[Figures] = []
    for threads in THREADS:
        bench = Bench(threads)
        mine.append(ours(bench, options.tokens, options.repeats))
        agrees = same_ids(bench, options.tokens)
        say(f"numeric class  {bench.model.numeric_class}, {threads} thread(s)")
        say(f"determinism    same ids alone and in company: {'yes' if agrees else 'NO'}")
        bench.model.close()
    published = reference(EngineSettings())
    other = [theirs(published, threads, options.tokens, options.repeats) for threads in THREADS]
    say("tokens per second")
    named = [(f"ours, {one.threads} thr", one) for one in mine]
    say(table([*named, *((f"HF, {one.threads} thr", one) for one in other)]))
    say(f"load average after: {', '.join(f'{value:.2f}' for value in os.getloadavg())}")
    fast, hf = best(mine), best(other).generated[1]
    result = {f"tok_s_{n}": round(fast.generated[n], 1) for n in CONCURRENT}
    result["prefill_tok_s_512"] = round(fast.prefill, 1)
    result |= {"hf_tok_s_1": round(hf, 1), "ratio_hf_1": round(fast.generated[1] / hf, 2)}
    say(json.dumps(result))


if __name__ == "__main__":
    main()

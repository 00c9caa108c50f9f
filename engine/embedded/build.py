"""How an embedded engine is put together, and what the rest of the process sees of it.

::

    engine = build(settings, boundary=boundary, on_step=on_step)   # loads, compiles, calibrates
    engine.capacity            # Capacity(active_cap, step_token_budget, context, kv_blocks)
    engine.curve               # tuple[CurvePoint, ...], measured at boot
    engine.fingerprint         # model, weights, numeric class: one line
    engine.tokenizer.chat([{"role": "user", "content": "hi"}])   # -> tuple[int, ...]
    engine.worker.start()
    engine.worker.submit(generation, on_output)   # the Generator protocol
    engine.worker.failure      # the exception that stopped it, or None
    engine.worker.close()

The boundary usually needs the capacity before it can exist, so ``boundary`` is a factory:
``boundary(capacity: Capacity) -> Boundary``, called once after calibration.

Torch only holds tensors here; the kernels bring their own threads (``settings.threads``), which
sleep when they wait. Torch itself is kept to one thread, so it starts none that could spin.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from msgspec import Struct

from engine import models
from engine.embedded import calibrate, weights
from engine.embedded.core import Core, OnStep
from engine.embedded.kernels.compiling import compile_kernels
from engine.embedded.kv import BlockPool
from engine.embedded.model import Model
from engine.embedded.scheduler import Scheduler
from engine.embedded.tokenizer import ChatTokenizer
from engine.embedded.worker import OnFailure, Worker
from engine.generation import Boundary
from engine.settings import EngineSettings
from signals.events import CurvePoint, KvLayout

Say = Callable[[str], None]


class Capacity(Struct, frozen=True, kw_only=True):
    """What is fixed when the engine starts; knobs stay within it."""

    active_cap: int
    step_token_budget: int
    context: int
    kv_blocks: int


class EmbeddedEngine(Struct, frozen=True, kw_only=True):
    """A ready engine; its worker is not started yet."""

    worker: Worker
    tokenizer: ChatTokenizer
    capacity: Capacity
    curve: tuple[CurvePoint, ...]
    model_name: str
    numeric_class: str
    fingerprint: str
    kv: KvLayout


def build(
    settings: EngineSettings,
    *,
    boundary: Callable[[Capacity], Boundary],
    on_step: OnStep,
    on_failure: OnFailure | None = None,
    say: Say = lambda _: None,
) -> EmbeddedEngine:
    """Load, compile, calibrate. Takes a few seconds; ``say`` gets a line per stage.

    Raises ``Unavailable`` when the weights were not fetched or there is no C compiler.
    """
    torch.set_num_threads(1)
    model, tokenizer, digest = open_model(settings, say=say)
    say("measuring what a step costs")
    capacity, curve = _measure(model, settings)
    pool = BlockPool(
        total=settings.kv_blocks, slots=settings.capacity_active, context=settings.context
    )
    core = Core(
        model=model,
        tokenizer=tokenizer,
        scheduler=Scheduler(pool),
        boundary=boundary(capacity),
        on_step=on_step,
        clock=time.monotonic,
    )
    worker = Worker(
        core,
        context=settings.context,
        max_queue=settings.max_queue,
        idle_s=settings.idle_boundary_ms / 1000,
        on_failure=on_failure,
    )
    return EmbeddedEngine(
        worker=worker,
        tokenizer=tokenizer,
        capacity=capacity,
        curve=curve,
        model_name=model.shape.name,
        numeric_class=model.numeric_class,
        fingerprint=f"{model.shape.name}/{digest[:12]}/{model.numeric_class}",
        kv=model.kv_layout,
    )


def open_model(
    settings: EngineSettings, *, say: Say = lambda _: None
) -> tuple[Model, ChatTokenizer, str]:
    """The model with its KV pool, its tokenizer, and its weights' SHA-256."""
    found = models.locate(settings.cache)
    say("preparing the weights")
    folder = weights.prepare(found.path, digest=found.digest, cache=settings.cache)
    shape, tensors = weights.load(folder)
    say("compiling the kernels")
    library = compile_kernels(
        settings.cache, head_dim=shape.head_dim, group=shape.heads // shape.kv_heads
    )
    model = Model(
        shape,
        tensors,
        library=library,
        context=settings.context,
        kv_blocks=settings.kv_blocks,
        max_rows=max(settings.capacity_active, settings.capacity_budget),
        max_chosen=settings.capacity_active,
        threads=settings.threads,
    )
    return model, ChatTokenizer.load(folder, chat_template=shape.chat_template), found.digest


def _measure(model: Model, settings: EngineSettings) -> tuple[Capacity, tuple[CurvePoint, ...]]:
    repeats = settings.calibration_repeats
    decode = calibrate.measure_decode(
        model, capacity=settings.capacity_active, repeats=repeats, clock=time.monotonic
    )
    prefill, budget = calibrate.measure_prefill(
        model,
        capacity=settings.capacity_budget,
        limit_ms=settings.step_limit_ms,
        repeats=repeats,
        clock=time.monotonic,
    )
    capacity = Capacity(
        active_cap=settings.capacity_active,
        step_token_budget=budget,
        context=settings.context,
        kv_blocks=settings.kv_blocks,
    )
    return capacity, (*decode, *prefill)

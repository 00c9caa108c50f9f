"""Engines that follow a known step curve, for the plant's tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np

from controller.state import PlantInput
from policies.knobs import KnobSpec
from signals.events import MICROS, StepMoments
from signals.settings import IntentSettings

CAP = KnobSpec(name="active_cap", unit="sequences", low=1, capacity=64, boot=64, effect_delay_s=1.0)
LADDER = (2, 4, 8, 16, 32, 64)

BASE_US, DECODE_US, PREFILL_US = 18_000.0, 1300.0, 700.0
BOOT = tuple(
    (b, f, round(BASE_US + DECODE_US * b + PREFILL_US * f))
    for b, f in [(1, 0), (4, 0), (16, 0), (64, 0), (1, 128), (1, 256)]
)


def moments(steps: Iterable[tuple[int, int, float]]) -> StepMoments:
    """The sums an engine would report over (decode, prefill, µs)."""
    rows = [(b, f, round(t)) for b, f, t in steps]
    return StepMoments(
        n=len(rows),
        b=sum(b for b, _, _ in rows),
        f=sum(f for _, f, _ in rows),
        t=sum(t for _, _, t in rows),
        bb=sum(b * b for b, _, _ in rows),
        bf=sum(b * f for b, f, _ in rows),
        ff=sum(f * f for _, f, _ in rows),
        bt=sum(b * t for b, _, t in rows),
        ft=sum(f * t for _, f, t in rows),
        tt=sum(t * t for _, _, t in rows),
    )


def steps(
    n: int, *, batches: tuple[int, ...], seed: int, factor: float = 1.0, noise: float = 0.0
) -> StepMoments:
    """``n`` steps at these batch sizes with prefill now and then, ``factor`` times as slow."""
    rng = np.random.default_rng(seed)
    rows = []
    for index in range(n):
        b = batches[index % len(batches)]
        f = int(rng.integers(0, 64)) if rng.random() < 0.3 else 0
        t = factor * (BASE_US + DECODE_US * b + PREFILL_US * f)
        rows.append((b, f, t * float(np.exp(rng.normal(0, noise)))))
    return moments(rows)


def phases(on_s: int, off_s: int, cycles: int) -> tuple[tuple[int, dict[str, int]], ...]:
    """Interactive arrivals each second of ``on_s``, batch arrivals always."""
    one = [{"live": 1, "batch": 4}] * on_s + [{"live": 0, "batch": 4}] * off_s
    return tuple(((at + 1) * MICROS, counts) for at, counts in enumerate(one * cycles))


def plant_input(**changes: Any) -> PlantInput:
    seen = PlantInput(
        moments=steps(2000, batches=(4, 8, 16), seed=1, noise=0.02),
        curve=BOOT,
        prefill_per_decode=1.0,
        arrivals=phases(8, 8, 6),
        offered=(),
        deadline_s={},
        drain_p95_s=1.0,
        fingerprint="f",
    )
    return msgspec.structs.replace(seen, **changes)


def intents(*tpot_ms: int) -> dict[str, IntentSettings]:
    """An interactive intent for each limit, named live, live1, …, and one of batch work."""
    found = {"batch": IntentSettings.model_validate({"class": "batch", "slo": {"e2e_ms": 5000}})}
    for index, limit in enumerate(tpot_ms):
        name = f"live{index or ''}"
        found[name] = IntentSettings.model_validate({"slo": {"ttft_ms": 1000, "tpot_ms": limit}})
    return found

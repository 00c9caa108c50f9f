"""Runs of the embedded engine, recorded now: the whole product under loads of known seeds.

Prompts are random common words, so that how many tokens they have is only known afterwards: what
is offered to the simulated engine are the lengths that the engine counted. Requests come and go as
the engine's own records say, and its step sums, a row a second, are kept beside them.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import httpx
import msgspec
import numpy as np
from msgspec import Struct

from benchmarks import product
from benchmarks.figures import say
from benchmarks.simulator_truth.measured import Request
from engine.simulated.arrivals.kinds import LIVE
from engine.simulated.arrivals.lengths import Uniform
from engine.simulated.arrivals.poisson import Load, poisson
from engine.simulated.arrivals.shaping import window
from engine.simulated.offered import Offered
from examples.journey.programs import Programs
from examples.journey.prompts import CHATS, JOBS
from examples.journey.sample import Ports
from signals.errors import Unavailable
from signals.events import MICROS, StepMoments
from signals.features.model import RequestRow, SecondRow
from signals.features.reader import SqliteFeatures

TARGET = "chat"
RATES_PER_S = (0.7, 1.4, 2.1)
"""Below saturation on two cores: on its edge a queue shows how a run went, not how fast it is."""
FITTED_RATE_PER_S = 1.4
LENGTHS = Uniform(prompt_tokens=(40, 160), output_tokens=(16, 64))
TEMPLATE_TOKENS = 30
"""What the model's own words around a message come to; a prompt has so many fewer words."""
WARM_UP = 8
TIMEOUT_S = 300.0
SHOWN_S = 60.0
POLL_S = 0.5
CONFIGURATION = """\
state_dir: {state_dir}
targets:
  chat:
    engine: {{kind: embedded}}
    maximize: live.tokens_per_s
    intents:
      live: {{class: interactive, slo: {{ttft_ms: 10000, attainment: 0.9}}}}
features: {{lateness_s: 3}}
engine: {{port: {chat}, control_port: {control}}}
ingest: {{port: {signals}}}
serve: {{port: {api}}}
"""


class Second(Struct, frozen=True, kw_only=True):
    """The engine's steps up to ``at_s`` after the run's first arrival."""

    at_s: float
    length_s: float
    steps: StepMoments


class Recorded(Struct, frozen=True, kw_only=True):
    """One load on the engine. ``seconds`` by time; requests by arrival, the first at second 0."""

    per_s: float
    requests: list[Request]
    seconds: list[Second]


class Recording(Struct, frozen=True, kw_only=True):
    """Every load on one engine, and what it was started with. ``hardware``: in words."""

    hardware: str
    load_average: list[float]
    seed: int
    active_cap: int
    step_token_budget: int
    runs: list[Recorded]

    def run(self, per_s: float) -> Recorded:
        """The run at a rate."""
        return next(run for run in self.runs if run.per_s == per_s)


def record(seed: int, length_s: float, hardware: str, load_average: Sequence[float]) -> Recording:
    """Start everything, live through every load, stop everything."""
    with (
        tempfile.TemporaryDirectory(prefix="trimtab-truth-") as folder,
        Programs(Path(folder) / "logs") as programs,
    ):
        ports = product.start(programs, Path(folder), CONFIGURATION)
        knobs = _knobs(ports, Path(folder))
        features = SqliteFeatures(Path(folder) / "features.db")
        with contextlib.closing(features):
            runs = asyncio.run(_live(ports, features, seed, length_s))
    return Recording(
        hardware=hardware,
        load_average=list(load_average),
        seed=seed,
        active_cap=knobs["active_cap"],
        step_token_budget=knobs["step_token_budget"],
        runs=runs,
    )


def read(path: Path) -> Recording:
    """One that was written. Raises ``Unavailable`` for a file that holds none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Recording)
    except msgspec.MsgspecError as error:
        raise Unavailable(f"{path} holds no recording: {error}") from error


def recorded(
    per_s: float, rows: Iterable[RequestRow], ticks: Iterable[SecondRow], *, from_us: int
) -> Recorded:
    """The run from rows of the features since ``from_us``; who had no answer is left out."""
    mine = [row for row in rows if row.arrival_us >= from_us and row.status == "ok"]
    mine.sort(key=lambda row: row.arrival_us)
    if not mine:
        raise Unavailable(f"no request of {per_s:g} a second was answered")
    zero_us = mine[0].arrival_us
    return Recorded(
        per_s=per_s,
        requests=[_request(row, zero_us) for row in mine],
        seconds=[
            Second(
                at_s=(tick.to_us - zero_us) / MICROS,
                length_s=(tick.to_us - tick.from_us) / MICROS,
                steps=tick.steps,
            )
            for tick in ticks
            if tick.from_us >= zero_us
        ],
    )


def _request(row: RequestRow, zero_us: int) -> Request:
    ttft_us, finished_us = row.ttft_us, row.finished_us
    if ttft_us is None or finished_us is None:
        raise Unavailable(f"request {row.request_id} ended well and has no times")
    return Request(
        id=row.request_id,
        arrival_s=(row.arrival_us - zero_us) / MICROS,
        first_s=(row.arrival_us + ttft_us - zero_us) / MICROS,
        last_s=(finished_us - zero_us) / MICROS,
        prompt_tokens=row.prompt_tokens,
        output_tokens=row.output_tokens,
    )


def _knobs(ports: Ports, folder: Path) -> Mapping[str, int]:
    url, key = ports.url(ports.control), product.secret(folder, "control")
    with product.caller(url, key) as engine:
        settings = engine.get("/v1/runtime_config").raise_for_status().json()["settings"]
    return {one["knob"]: one["value"] for one in settings}


async def _live(
    ports: Ports, features: SqliteFeatures, seed: int, length_s: float
) -> list[Recorded]:
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(
        base_url=ports.url(ports.chat), timeout=TIMEOUT_S, limits=limits, trust_env=False
    ) as client:
        model = str((await client.get("/v1/models")).raise_for_status().json()["data"][0]["id"])
        warm = Offered(
            arrival_s=0.0, intent="live", class_="interactive", prompt_tokens=64, output_tokens=16
        )
        await asyncio.gather(*(_send(client, model, warm, Random(n)) for n in range(WARM_UP)))
        found = []
        for per_s in RATES_PER_S:
            found.append(await _one(client, model, features, per_s, seed, length_s))
            say(f"recorded {len(found[-1].requests)} requests at {per_s:g} a second")
        return found


async def _one(
    client: httpx.AsyncClient,
    model: str,
    features: SqliteFeatures,
    per_s: float,
    seed: int,
    length_s: float,
) -> Recorded:
    rng = np.random.default_rng([seed, round(1000 * per_s)])
    load = Load(kind=LIVE, per_s=per_s, lengths=LENGTHS, load_sd=0.1)
    offered = list(window(poisson(load, rng), 0.0, length_s))
    words, began_us, began_s = Random(seed), time.time_ns() // 1000, time.monotonic()
    async with asyncio.TaskGroup() as group:
        for one in offered:
            await asyncio.sleep(max(0.0, began_s + one.arrival_s - time.monotonic()))
            group.create_task(_send(client, model, one, Random(words.getrandbits(32))))
    ended_us = time.time_ns() // 1000
    deadline_s = time.monotonic() + SHOWN_S
    while features.watermark_us(TARGET) < ended_us:
        if time.monotonic() > deadline_s:
            raise Unavailable(f"features are more than {SHOWN_S:g} s behind")
        await asyncio.sleep(POLL_S)
    rows = features.find_requests(TARGET, limit=10 * len(offered))
    ticks = features.seconds(TARGET, from_us=began_us, to_us=ended_us)
    return recorded(per_s, rows, ticks, from_us=began_us)


async def _send(client: httpx.AsyncClient, model: str, one: Offered, rng: Random) -> None:
    vocabulary = " ".join((*JOBS, *CHATS)).split()
    length = max(1, one.prompt_tokens - TEMPLATE_TOKENS)
    text = " ".join(rng.choice(vocabulary) for _ in range(length))
    body: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": text}]}
    body |= {"max_tokens": one.output_tokens, "seed": rng.getrandbits(32)}
    answer = await client.post(
        "/v1/chat/completions", json=body, headers={"X-Trimtab-Intent": one.intent}
    )
    answer.raise_for_status()

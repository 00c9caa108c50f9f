"""Runs that BurstGPT's authors logged: vLLM on a 24 GB GPU, the same 500 requests at four loads.

At load s the trace's requests come s times as fast. The detail log has one record a request, at its
end: arrival = ``record_time − total_chunk_time``. Two counts are not in tokens of the model, and
are worked out from the engine's own log, which is:

- ``in_len`` was counted otherwise: it sums to 1.25 times the prompt tokens of the engine's log at
  every load. Prompts are shortened by that ratio.
- ``out_len`` counts the *characters* of prompt and answer together. A request that decodes from a
  to b got ∫ output tokens a second / running dt tokens, at least 1 and at most its limit of 1024.

Both are taken from the load that is calibrated on, and hold for the load that is offered at the
others: the prompts are the same, and half of the answers have exactly as many characters.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from benchmarks import traces
from benchmarks.simulator_truth.measured import Request, Run, Sample
from engine.simulated.arrivals.rows import real, refused, whole

FOLDER = ("burstgpt_vllm_logs", "logs")
CALIBRATED_LOAD = 300
"""The lowest load whose running count reaches the cap: its log shows every size of batch."""
OTHER_LOADS = (100, 500, 1000)
MAX_RUNNING = 256
MAX_OUTPUT_TOKENS = 1024
MAX_STEP_TOKENS = 512
"""Not in the logs: vLLM's own value with chunked prefill, which ``tokens_per_step`` confirms."""


def run(load: int) -> Run:
    """One load's run, with prompt and output tokens as its own engine's log has them."""
    text = traces.text(*FOLDER, "detail_log", f"detail_log_scale{load}_prompt500.json")
    rows = traces.lines(*FOLDER, "vllm_log", f"vllm_log_scale{load}_prompt500.csv")
    records: dict[str, dict[str, Any]] = json.loads(text)
    zero_s = min(record["record_time"] - record["total_chunk_time"] for record in records.values())
    return in_tokens(
        f"BurstGPT's vLLM, load {load}", requests(records, zero_s), samples(rows, zero_s)
    )


def requests(records: Mapping[str, Mapping[str, Any]], zero_s: float) -> list[Request]:
    """The requests by arrival, ``prompt_tokens`` as recorded and one output token each."""
    found = []
    for line, (id_, record) in enumerate(records.items(), 1):
        times = ("record_time", "first_chunk_time", "total_chunk_time")
        for name in times:
            if not isinstance(record.get(name), float):
                raise refused(line, name, record.get(name), "a number of seconds")
        end_s, first_s, total_s = (record[name] for name in times)
        arrival_s = end_s - total_s - zero_s
        found.append(
            Request(
                id=id_,
                arrival_s=arrival_s,
                first_s=arrival_s + first_s,
                last_s=arrival_s + total_s,
                prompt_tokens=whole(record.get("in_len"), line=line, field="in_len", at_least=1),
                output_tokens=1,
            )
        )
    return sorted(found, key=lambda request: request.arrival_s)


def samples(rows: Iterable[str], zero_s: float) -> list[Sample]:
    """The log's intervals of about half a second, by time; the first row has none before it."""
    found: list[Sample] = []
    before_s: float | None = None
    for line, row in enumerate(csv.DictReader(rows), 2):
        value = {name: real(text, line=line, field=name) for name, text in row.items()}
        at_s = value["timestamp"] - zero_s
        length_s = 0.0 if before_s is None else at_s - before_s
        before_s = at_s
        found.append(
            Sample(
                at_s=at_s,
                length_s=length_s,
                running=value["num_running"],
                waiting=value["num_pending"],
                prompt_tokens=value["prompt_throughput"] * length_s,
                output_tokens=value["generation_throughput"] * length_s,
            )
        )
    return found


def in_tokens(name: str, found: Sequence[Request], seen: Sequence[Sample]) -> Run:
    """The run with both counts in the engine's tokens."""
    recorded = sum(request.prompt_tokens for request in found)
    ratio = sum(sample.prompt_tokens for sample in seen) / recorded
    tokens = decoded_tokens(found, seen)
    counted = [
        replace(
            request,
            prompt_tokens=max(1, round(request.prompt_tokens * ratio)),
            output_tokens=tokens[request.id],
        )
        for request in found
    ]
    return Run(name=name, requests=counted, samples=seen)


def as_in(run: Run, calibrated: Run) -> list[Request]:
    """The run's requests, offered with the calibrated run's counts of tokens."""
    counts = {request.id: request for request in calibrated.requests}
    return [
        replace(
            request,
            prompt_tokens=counts[request.id].prompt_tokens,
            output_tokens=counts[request.id].output_tokens,
        )
        for request in run.requests
    ]


def decoded_tokens(requests: Sequence[Request], samples: Sequence[Sample]) -> dict[str, int]:
    """Output tokens by request, from the engine's log of the same run."""
    busy = [s for s in samples if s.running > 0 and s.length_s > 0]
    ends_s = np.array([s.at_s for s in busy])
    begins_s = ends_s - np.array([s.length_s for s in busy])
    per_s = np.array([s.output_tokens / s.length_s / s.running for s in busy])
    tokens = {}
    for request in requests:
        inside_s = np.minimum(ends_s, request.last_s) - np.maximum(begins_s, request.first_s)
        drawn = 1 + round(float(np.clip(inside_s, 0.0, None) @ per_s))
        tokens[request.id] = min(drawn, MAX_OUTPUT_TOKENS)
    return tokens


def tokens_per_step(samples: Sequence[Sample]) -> float:
    """Median of prompt and output tokens in a step while requests wait and the cap does not bind:
    the token budget of a step, if the engine has one."""
    full = [
        s.running * (1 + s.prompt_tokens / s.output_tokens)
        for s in samples
        if s.waiting > 0 and s.running < 0.95 * MAX_RUNNING and s.output_tokens > 0
    ]
    return float(np.median(full))

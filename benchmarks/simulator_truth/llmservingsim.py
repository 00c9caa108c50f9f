"""A run that LLMServingSim's authors logged: vLLM 0.19, Llama 3.1 8B, one RTX 4090, 300 requests.

``requests.jsonl`` mixes two clocks: ``arrival_time`` is the wall's, everything else monotonic. All
is taken from the monotonic one, arrival being ``queued_ts``. ``timeseries.csv`` has one row a
second: tokens of that second, running and waiting at its end.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable

from benchmarks import traces
from benchmarks.simulator_truth.measured import Request, Run, Sample
from engine.simulated.arrivals.rows import real, refused, whole

FOLDER = ("llmservingsim_vllm_runs", "RTX4090", "Llama-3.1-8B", "vllm")
KV_BLOCKS, BLOCK_TOKENS, MAX_RUNNING, MAX_STEP_TOKENS = 2588, 16, 256, 2048
"""From the run's ``meta.json``."""
TIMES = ("queued_ts", "first_token_ts", "last_token_ts")


def run() -> Run:
    """The whole run."""
    return Run(
        name="vLLM 0.19, RTX 4090",
        requests=requests(traces.lines(*FOLDER, "requests.jsonl")),
        samples=samples(traces.lines(*FOLDER, "timeseries.csv")),
    )


def requests(rows: Iterable[str]) -> list[Request]:
    """The requests by arrival, the first one at second 0."""
    read = [json.loads(row) for row in rows]
    for line, row in enumerate(read, 1):
        for name in TIMES:
            if not isinstance(row.get(name), float):
                raise refused(line, name, row.get(name), "a number of seconds")
    zero_s = min(row["queued_ts"] for row in read)
    found = [
        Request(
            id=row["request_id"],
            arrival_s=row["queued_ts"] - zero_s,
            first_s=row["first_token_ts"] - zero_s,
            last_s=row["last_token_ts"] - zero_s,
            prompt_tokens=whole(row["input_toks"], line=line, field="input_toks", at_least=1),
            output_tokens=whole(row["output_toks"], line=line, field="output_toks", at_least=1),
        )
        for line, row in enumerate(read, 1)
    ]
    return sorted(found, key=lambda request: request.arrival_s)


def samples(rows: Iterable[str]) -> list[Sample]:
    """The seconds, by time."""
    found: list[Sample] = []
    for line, row in enumerate(csv.DictReader(rows), 2):
        value = {name: real(text, line=line, field=name) for name, text in row.items()}
        length_s = value["t"] - (found[-1].at_s if found else 0.0)
        found.append(
            Sample(
                at_s=value["t"],
                length_s=length_s,
                running=value["running"],
                waiting=value["waiting"],
                prompt_tokens=value["prompt_throughput"] * length_s,
                output_tokens=value["gen_throughput"] * length_s,
            )
        )
    return found

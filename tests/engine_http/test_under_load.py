"""A full queue, clients that leave, and what the engine says of itself meanwhile."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest

from policies.runtime_config import Patch, SettingChange
from signals.events import Arrived, Finished
from tests.engine_process import PLAIN, SERVING_KEY, RunningEngine
from tests.engine_telemetry.ingesting import Ingest, wait

KEYED = {"Authorization": f"Bearer {SERVING_KEY}"}


def ask(engine: RunningEngine, tokens: int, **headers: str) -> httpx.Response:
    return PLAIN.post(
        f"{engine.url}/v1/chat/completions",
        headers=KEYED | headers,
        json={
            "model": engine.model,
            "messages": [{"role": "user", "content": "Tell me a very long story."}],
            "max_tokens": tokens,
            "seed": 1,
        },
    )


@contextmanager
def streaming(engine: RunningEngine, tokens: int) -> Iterator[Iterator[str]]:
    body = {
        "model": engine.model,
        "messages": [{"role": "user", "content": "Tell me a very long story."}],
        "max_tokens": tokens,
        "stream": True,
        "seed": 1,
    }
    with PLAIN.stream(
        "POST", f"{engine.url}/v1/chat/completions", headers=KEYED, json=body
    ) as answer:
        yield answer.iter_lines()


def set_cap(engine: RunningEngine, value: int | None) -> None:
    with engine.actuator() as control:
        seen = control.read()
        control.patch(
            Patch(
                change_id=uuid.uuid4().hex,
                epoch=seen.epoch,
                expected=seen.expected,
                settings=(SettingChange(knob="active_cap", value=value),),
            )
        )


@pytest.fixture
def one_at_a_time(engine: RunningEngine) -> Iterator[None]:
    set_cap(engine, 1)
    yield
    set_cap(engine, None)


def idle(engine: RunningEngine) -> bool:
    busy = ("vllm:num_requests_running", "vllm:num_requests_waiting", "trimtab_kv_blocks_used")
    return all(engine.figure(name) == 0 for name in busy)


@pytest.mark.usefixtures("one_at_a_time")
def test_a_full_queue_answers_429_with_retry_after_and_both_records_are_kept(
    engine: RunningEngine, ingest: Ingest
) -> None:
    tag = uuid.uuid4().hex[:8]
    with ThreadPoolExecutor(40) as crowd:
        answers = list(
            crowd.map(
                lambda n: ask(engine, 1, **{"X-Trimtab-External-Id": f"{tag}-{n}"}), range(40)
            )
        )
    refused = [answer for answer in answers if answer.status_code == 429]
    assert refused
    assert {answer.status_code for answer in answers} == {200, 429}
    assert all(int(answer.headers["Retry-After"]) >= 1 for answer in refused)
    assert refused[0].json()["error"]["code"] == "queue_full"

    def ends() -> list[Finished]:
        return [r for r in ingest.of(Finished) if (r.external_id or "").startswith(tag)]

    wait.until(lambda: len(ends()) == 40, "all forty are told")
    came = {r.request_id for r in ingest.of(Arrived) if (r.external_id or "").startswith(tag)}
    assert came == {r.request_id for r in ends()}
    rejected = [record for record in ends() if record.status == "rejected"]
    assert len(rejected) == len(refused)
    assert all(record.ttft_us is None for record in rejected)


def test_a_client_that_leaves_a_stream_frees_its_memory_at_once(
    engine: RunningEngine, ingest: Ingest
) -> None:
    wait.until(lambda: idle(engine), "the engine is idle")
    with streaming(engine, 400) as lines:
        first = json.loads(next(lines).removeprefix("data: "))
        wait.until(lambda: engine.figure("trimtab_kv_blocks_used") > 0, "it holds memory")
    wait.until(lambda: idle(engine), "its memory is free")
    wait.until(lambda: status_of(ingest, first["id"]) == "cancelled", "the end is told")
    (end,) = [record for record in ingest.of(Finished) if record.request_id == first["id"]]
    assert end.output_tokens < 400


def status_of(ingest: Ingest, request_id: str) -> str | None:
    ends = [record for record in ingest.of(Finished) if record.request_id == request_id]
    return ends[0].status if ends else None


@pytest.mark.usefixtures("one_at_a_time")
def test_a_client_that_leaves_while_it_waits_is_never_run(engine: RunningEngine) -> None:
    with streaming(engine, 200) as lines:
        next(lines)
        wait.until(lambda: engine.figure("vllm:num_requests_running") == 1, "the first one runs")
        waiting = httpx.Client(verify=False, timeout=0.5)
        with waiting, pytest.raises(httpx.ReadTimeout):
            waiting.post(
                f"{engine.url}/v1/chat/completions",
                headers=KEYED,
                json={
                    "model": engine.model,
                    "messages": [{"role": "user", "content": "Hi"}],
                    "max_tokens": 5,
                },
            )
        wait.until(lambda: engine.figure("vllm:num_requests_waiting") == 0, "it waits no more")
        assert engine.figure("vllm:num_requests_running") == 1
    wait.until(lambda: idle(engine), "the engine is idle")


def test_an_interactive_request_overtakes_waiting_batch_work(engine: RunningEngine) -> None:
    set_cap(engine, 1)
    try:
        with ThreadPoolExecutor(6) as crowd:
            jobs = [crowd.submit(ask, engine, 24, **{"X-Trimtab-Intent": "jobs"}) for _ in range(5)]
            wait.until(lambda: engine.figure("vllm:num_requests_waiting") >= 3, "jobs wait")
            chat = ask(engine, 2, **{"X-Trimtab-Intent": "live"})
            assert chat.status_code == 200
            assert sum(not job.done() for job in jobs) >= 2
            assert {job.result().status_code for job in jobs} == {200}
    finally:
        set_cap(engine, None)


def test_health_and_figures_need_no_key(engine: RunningEngine) -> None:
    assert PLAIN.get(f"{engine.url}/healthz").json() == {"status": "ok"}
    ask(engine, 3)
    wait.until(lambda: engine.figure("vllm:time_to_first_token_seconds_count") > 0, "it is counted")
    names = {name.partition("{")[0] for name in engine.figures()}
    assert {
        "vllm:num_requests_running",
        "vllm:kv_cache_usage_perc",
        "vllm:num_preemptions_total",
        "vllm:generation_tokens_total",
        "vllm:request_queue_time_seconds_bucket",
        "trimtab_knob",
        "trimtab_signals_dropped_total",
    } <= names

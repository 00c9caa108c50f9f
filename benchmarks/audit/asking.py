"""What questions about a long past cost: p99 over HTTP, of the real ``serve``, at two lengths.

One caller, one connection, questions in random order spread over the whole past, once the start is
over. The server's state is a store that was loaded beforehand and a features file that the real
feature stage wrote.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import urlencode

from msgspec import Struct

from benchmarks.audit.loading import INCARNATION, PEOPLE, REPLICA, Past, load
from benchmarks.audit.records import BEGAN_US, TARGETS
from benchmarks.figures import Figures, percentile, say
from benchmarks.free_port import free_port
from benchmarks.ingest.mix import basic
from benchmarks.pipeline import Pipeline, Shape
from controller.keys import wall_us
from controller.store.sql import open_store
from signals.bus.port import Message
from signals.bus.sqlite import SqliteBus
from signals.codec import encode
from signals.events import Arrived, Finished, SeenStamp
from signals.features.reader import SqliteFeatures
from signals.ids import RANDOM_BYTES, uuid7

SAMPLE: Final = 2000
PAGE: Final = 100
WARM: Final = 20
START_S: Final = 120.0
STATES: Final = ("superseded", "reverted")


class Pace(Struct, frozen=True, kw_only=True):
    """``policies`` of the long past; the short one has a tenth. ``questions`` of each kind."""

    policies: int
    questions: int


Ask = Callable[[Random], str]
"""The path of one question."""


def measure(folder: Path, pace: Pace, seed: int, told: Figures) -> bool:
    """True; settings_at_p99_ms, request_p99_ms, list_p99_ms of the long past, growth_10x."""
    short = _p99_ms(folder / "short", pace.policies // 10, pace.questions, seed, told)
    long = _p99_ms(folder / "long", pace.policies, pace.questions, seed, told)
    for name, value in long.items():
        told.key(f"{name}_p99_ms", value)
    told.key("growth_10x", max(long[name] / short[name] for name in long))
    return True


def _p99_ms(
    folder: Path, policies: int, questions: int, seed: int, told: Figures
) -> dict[str, float]:
    port = free_port()
    shape = Shape(targets=TARGETS, more={"serve": {"port": port}})
    with Pipeline(folder, shape) as pipeline:
        began_s = time.perf_counter()
        past = _filled(pipeline, policies, seed)
        took_s = time.perf_counter() - began_s
        requests = _requests(pipeline, past, seed)
        pipeline.start("serve")
        pipeline.wait("serve", lambda: _answers(port), timeout_s=START_S)
        key = pipeline.layout.key("admin").read_text(encoding="utf-8").strip()
        pipeline.wait("the audit's tree", lambda: _tree_stands(port, key), timeout_s=START_S)
        found = {
            name: _asked(port, key, ask, questions, Random(seed))
            for name, ask in _questions(past, requests).items()
        }
    say(
        f"{past.entries:>9,} entries, {past.policies:>7,} policies"
        f" ({past.entries / took_s:,.0f} entries/s loaded): p99 of {questions} "
        + ", ".join(f"{name} {value:.1f} ms" for name, value in found.items())
    )
    told.more[f"p99_ms_at_{past.entries}"] = {n: round(v, 2) for n, v in found.items()}
    return found


def _filled(pipeline: Pipeline, policies: int, seed: int) -> Past:
    address = pipeline.settings.store.address(pipeline.layout.store_db)
    store = open_store(address, pipeline.settings.store)
    try:
        return load(store, address, policies, seed=seed, sample=SAMPLE)
    finally:
        store.close()


def _requests(pipeline: Pipeline, past: Past, seed: int) -> list[str]:
    """One request under each sampled policy, brought in by the real feature stage."""
    rng, now_us = Random(seed), wall_us() - 60_000_000
    ids: list[str] = []
    bus = SqliteBus(pipeline.layout.bus)
    seq = 0
    for number, (target, policy, version) in enumerate(past.stamps):
        at_us = now_us + number
        request_id = f"{target}.{uuid7(at_us, rng.randbytes(RANDOM_BYTES))}"
        stamp = SeenStamp(
            target=target,
            replica=REPLICA,
            incarnation=INCARNATION,
            version=version,
            digest=f"{16:012x}",
            policies=(policy,),
        )
        messages = []
        for record in _life(request_id, stamp, at_us, seq):
            messages.append(_message(record))
            seq += 1
        bus.append(messages).result()
        ids.append(request_id)
    bus.close()
    features = SqliteFeatures(pipeline.layout.features_db)
    pipeline.start("features")
    pipeline.wait("features", lambda: features.bus_offset() >= seq, timeout_s=START_S)
    features.close()
    pipeline.stop("features")
    return ids


def _life(request_id: str, stamp: SeenStamp, at_us: int, seq: int) -> tuple[Arrived, Finished]:
    both: dict[str, Any] = {
        "stamp": stamp,
        "request_id": request_id,
        "intent": "live",
        "class_": "interactive",
    }
    return (
        Arrived(seq=seq, arrival_us=at_us, prompt_tokens=10, max_tokens=16, **both),
        Finished(
            seq=seq + 1,
            arrival_us=at_us,
            finished_us=at_us + 200_000,
            status="ok",
            prompt_tokens=10,
            output_tokens=16,
            max_tokens=16,
            ttft_us=50_000,
            **both,
        ),
    )


def _message(record: Arrived | Finished) -> Message:
    signal = basic(record)
    return Message(
        key=signal.target,
        body=encode(signal),
        producer=signal.producer,
        accepted_us=signal.time_us,
    )


def _questions(past: Past, requests: list[str]) -> dict[str, Ask]:
    def settings_at(rng: Random) -> str:
        at = datetime.fromtimestamp(rng.uniform(BEGAN_US, past.until_us) / 1e6, UTC)
        query = urlencode({"at": at.isoformat()})
        return f"/v1/targets/{rng.choice(TARGETS)}/settings?{query}"

    def request(rng: Random) -> str:
        return f"/v1/requests/{rng.choice(requests)}"

    def listed(rng: Random) -> str:
        kind = rng.randrange(4)
        if kind == 0:
            query: dict[str, object] = {"target": rng.choice(TARGETS), "state": rng.choice(STATES)}
            query |= {"before": rng.choice(past.stamps)[1], "limit": PAGE}
            return f"/v1/policies?{urlencode(query)}"
        asked: Mapping[int, dict[str, object]] = {
            1: {"actor": f"key_{rng.randrange(PEOPLE):032x}"},
            2: {"action": "policy.kept", "target": rng.choice(TARGETS)},
            3: {"target": rng.choice(TARGETS)},
        }
        query = {**asked[kind], "before": rng.randrange(past.entries), "limit": PAGE}
        return f"/v1/history?{urlencode(query)}"

    return {"settings_at": settings_at, "request": request, "list": listed}


def _asked(port: int, key: str, ask: Ask, questions: int, rng: Random) -> float:
    """p99 in ms, after a few that warm the server up."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    took_ms = []
    for number in range(WARM + questions):
        path = ask(rng)
        began_s = time.perf_counter()
        connection.request("GET", path, headers={"Authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        body = answer.read()
        if number >= WARM:
            took_ms.append(1000 * (time.perf_counter() - began_s))
        if answer.status != 200:
            raise RuntimeError(f"GET {path} answered {answer.status}: {body[:300]!r}")
    connection.close()
    return percentile(took_ms, 99)


def _tree_stands(port: int, key: str) -> bool:
    """Whether the start is over: the tree over all entries is built, and its head published."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/v1/audit/head", headers={"Authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        body = answer.read()
        return answer.status == 200 and json.loads(body)["published"] is not None
    finally:
        connection.close()


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()

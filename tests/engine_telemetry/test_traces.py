"""Traces: one a request, under GenAI names, carrying the stamp and no text."""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from engine.generation import Progress
from engine.serving_settings import TelemetrySettings
from engine.settings_in_force import EngineIdentity
from engine.telemetry.ledger import EndedVisit
from engine.telemetry.outlets import Outlets
from engine.telemetry.trace_log import JsonLinesExporter
from engine.telemetry.traces import EndedVisits, RequestTracer
from tests.engine_telemetry.requests import PARENT_SPAN, PARENT_TRACE, ended, visit


def trace(path: Path, *ends: EndedVisit, max_bytes: int = 1_000_000, keep: int = 2) -> None:
    exporter = JsonLinesExporter(path, max_bytes=max_bytes, keep=keep)
    tracer = RequestTracer("smol", {"service.name": "test"}, [SimpleSpanProcessor(exporter)])
    for end in ends:
        tracer(end)
    tracer.close()


def spans(path: Path) -> dict[str, dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {line["name"]: line for line in lines}


def test_a_request_has_a_span_for_each_phase_below_one_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    trace(path, ended(visit(1_800_000_000.0)))
    found = spans(path)
    root = found["chat smol"]
    phases = [found[name] for name in ("queue", "prefill", "decode")]
    assert all(phase["parent_span_id"] == root["span_id"] for phase in phases)
    assert {phase["trace_id"] for phase in phases} == {root["trace_id"]}
    assert [phase["end_ns"] - phase["start_ns"] for phase in phases] == [
        pytest.approx(expected, abs=1000) for expected in (100_000_000, 200_000_000, 400_000_000)
    ]
    assert root["start_ns"] == 1_800_000_000_000_000_000


def test_a_trace_carries_genai_names_and_the_stamp(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    trace(path, ended(visit(1_800_000_000.0)))
    attributes = spans(path)["chat smol"]["attributes"]
    assert attributes["gen_ai.operation.name"] == "chat"
    assert attributes["gen_ai.request.model"] == "smol"
    assert attributes["gen_ai.usage.input_tokens"] == 7
    assert attributes["gen_ai.usage.output_tokens"] == 5
    assert attributes["gen_ai.server.time_to_first_token"] == pytest.approx(0.3)
    assert attributes["gen_ai.response.finish_reasons"] == ["stop"]
    assert attributes["trimtab.digest"] == "0123456789abcdef"
    assert attributes["trimtab.version"] == 3
    assert attributes["trimtab.policies"] == ["p1"]
    assert attributes["trimtab.trial.block"] == 4
    assert attributes["trimtab.trial.arm"] == "candidate"


def test_the_clients_trace_is_the_parent(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    parent = f"00-{PARENT_TRACE}-{PARENT_SPAN}-01"
    trace(path, ended(visit(1_800_000_000.0, traceparent=parent)))
    root = spans(path)["chat smol"]
    assert (root["trace_id"], root["parent_span_id"]) == (PARENT_TRACE, PARENT_SPAN)


def test_a_malformed_parent_starts_a_trace_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    trace(path, ended(visit(1_800_000_000.0, traceparent="not-a-trace")))
    assert spans(path)["chat smol"]["parent_span_id"] is None


def test_a_request_that_never_ran_has_only_its_queue(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    came = visit(1_800_000_000.0)
    trace(
        path,
        EndedVisit(visit=came, finish="rejected", progress=Progress(), ended_s=100.5, error="full"),
    )
    found = spans(path)
    assert set(found) == {"chat smol", "queue"}
    assert found["chat smol"]["status"] == "ERROR"


def test_the_trace_log_rotates_and_keeps_only_so_many_files(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "traces.jsonl"
    ends = [ended(visit(1_800_000_000.0 + number)) for number in range(40)]
    trace(path, *ends, max_bytes=10_000, keep=2)
    files = sorted(file.name for file in path.parent.iterdir())
    assert files == ["traces.jsonl", "traces.jsonl.1", "traces.jsonl.2"]
    assert all(file.stat().st_size <= 10_000 for file in path.parent.iterdir())
    for file in path.parent.iterdir():
        assert all(json.loads(line) for line in file.read_text(encoding="utf-8").splitlines())


def test_a_full_queue_of_ended_requests_counts_what_it_does_not_show() -> None:
    shown: list[EndedVisit] = []
    waiting = EndedVisits(2)
    for number in range(5):
        waiting.put(ended(visit(float(number))))
    watchers: list[Callable[[EndedVisit], None]] = [shown.append]
    waiting.start(watchers)
    waiting.close(5.0)
    assert (len(shown), waiting.missed) == (2, 3)


def test_traces_go_to_an_otlp_collector_when_one_is_set() -> None:
    received: list[bytes] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        endpoint = f"http://127.0.0.1:{server.server_port}/v1/traces"
        identity = EngineIdentity(target="chat", replica="r0", incarnation="cafe")
        settings = TelemetrySettings(otlp_endpoint=endpoint)
        outlets = Outlets(settings, identity, producer_key=None, intents={})
        outlets.start("smol", lambda end: None)
        outlets.ledger.ended(ended(visit(1_800_000_000.0)))
        outlets.close()
        server.shutdown()
        serving.join()
    (body,) = [
        zlib.decompress(sent, wbits=31) if sent[:2] == b"\x1f\x8b" else sent for sent in received
    ]
    posted = ExportTraceServiceRequest.FromString(body).resource_spans[0]
    assert {span.name for span in posted.scope_spans[0].spans} == {
        "chat smol",
        "queue",
        "prefill",
        "decode",
    }
    resource = {pair.key: pair.value.string_value for pair in posted.resource.attributes}
    assert resource["service.instance.id"] == "r0.cafe"

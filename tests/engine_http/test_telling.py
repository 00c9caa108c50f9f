"""What a running engine tells: signals at ingest, and a trace log without text."""

from __future__ import annotations

import json
import uuid
from itertools import pairwise

from policies.runtime_config import Patch, TrialStamp
from signals.events import Arrived, Finished, Second, SeenTrial, Started
from tests.engine_http.test_under_load import ask
from tests.engine_process import RunningEngine
from tests.engine_telemetry.ingesting import Ingest, wait


def finished(ingest: Ingest, request_id: str) -> Finished | None:
    return next((r for r in ingest.of(Finished) if r.request_id == request_id), None)


def test_it_says_what_it_is_when_it_starts(engine: RunningEngine, ingest: Ingest) -> None:
    wait.until(lambda: ingest.of(Started), "the start is told")
    (started,) = ingest.of(Started)
    assert started.seq == 0
    assert started.stamp.incarnation == engine.incarnation
    assert started.fingerprint == engine.fingerprint
    assert len([point for point in started.curve if point.decode]) >= 3
    assert all(point.step_us > 0 for point in started.curve)


def test_a_request_is_told_when_it_comes_and_when_it_ends(
    engine: RunningEngine, ingest: Ingest
) -> None:
    marks = {
        "X-Trimtab-Intent": "jobs",
        "X-Trimtab-Session": "session-1",
        "X-Trimtab-External-Id": "order-7",
    }
    answer = ask(engine, 6, **marks).json()
    wait.until(lambda: finished(ingest, answer["id"]), "the end is told")
    end = finished(ingest, answer["id"])
    (came,) = [r for r in ingest.of(Arrived) if r.request_id == answer["id"]]
    assert end is not None
    assert (came.intent, came.class_, came.session_id, came.external_id) == (
        "jobs",
        "batch",
        "session-1",
        "order-7",
    )
    assert came.prompt_tokens == answer["usage"]["prompt_tokens"]
    assert came.max_tokens == 6
    assert (end.status, end.output_tokens) == ("ok", 6)
    assert end.stamp == came.stamp
    assert end.queue_us is not None
    assert end.ttft_us is not None
    assert end.tpot_us is not None
    assert 0 <= end.queue_us <= end.ttft_us <= end.finished_us - end.arrival_us
    assert end.ttft_us + 5 * end.tpot_us <= end.finished_us - end.arrival_us + 1000


def test_an_undeclared_intent_counts_as_default_and_a_class_may_be_named(
    engine: RunningEngine, ingest: Ingest
) -> None:
    marks = {"X-Trimtab-Intent": "never_declared", "X-Trimtab-Class": "batch"}
    answer = ask(engine, 1, **marks).json()
    wait.until(lambda: finished(ingest, answer["id"]), "the end is told")
    end = finished(ingest, answer["id"])
    assert end is not None
    assert (end.intent, end.class_) == ("default", "batch")


def test_seconds_tell_load_steps_and_knobs_and_are_cut_at_every_new_block(
    engine: RunningEngine, ingest: Ingest
) -> None:
    trial = TrialStamp(id="cut", block=0, arm="baseline")
    with engine.actuator() as control:
        for block in range(3):
            seen = control.read()
            control.patch(
                Patch(
                    change_id=uuid.uuid4().hex,
                    epoch=seen.epoch,
                    expected=seen.expected,
                    trial=TrialStamp(id=trial.id, block=block, arm=trial.arm),
                )
            )
            ask(engine, 4, **{"X-Trimtab-Intent": "live"})
        seen = control.read()
        control.patch(Patch(change_id=uuid.uuid4().hex, epoch=seen.epoch, expected=seen.expected))

    def of_trial() -> list[Second]:
        seconds = ingest.of(Second)
        return [s for s in seconds if s.stamp.trial is not None and s.stamp.trial.id == "cut"]

    def tokens() -> int:
        return sum(s.intents["live"].output_tokens for s in of_trial() if "live" in s.intents)

    wait.until(lambda: tokens() == 12, "all tokens of the three blocks are told")
    seconds = of_trial()
    blocks = [s.stamp.trial for s in seconds if s.stamp.trial is not None]
    assert [b.block for b in blocks] == sorted(b.block for b in blocks)
    assert set(blocks) == {SeenTrial(id="cut", block=n, arm="baseline") for n in range(3)}
    for block in range(3):
        mine = [s for s in seconds if s.stamp.trial is not None and s.stamp.trial.block == block]
        assert sum(s.intents["live"].arrivals for s in mine if "live" in s.intents) == 1
        assert sum(s.intents["live"].output_tokens for s in mine if "live" in s.intents) == 4
        assert sum(s.steps.b for s in mine) >= 3
        assert sum(s.steps.f for s in mine) > 0
    assert all(earlier.to_us <= later.from_us + 1000 for earlier, later in pairwise(seconds))
    knobs = {"active_cap", "step_token_budget", "answer_tokens"}
    assert all(set(s.knobs) == knobs for s in seconds)


def test_while_ingest_is_away_nothing_is_held_up_and_the_lost_are_counted(
    engine: RunningEngine, ingest: Ingest
) -> None:
    before = engine.figure("trimtab_signals_dropped_total")
    ingest.stop()
    try:
        wait.until(
            lambda: engine.figure("trimtab_signals_dropped_total") > before, "the ring is full"
        )
        assert ask(engine, 4).status_code == 200
    finally:
        ingest.start()
    answer = ask(engine, 1).json()
    wait.until(lambda: finished(ingest, answer["id"]), "records flow again")
    numbers = sorted({r.seq for r in ingest.records})
    lost = numbers[-1] + 1 - len(numbers)
    assert lost == engine.figure("trimtab_signals_dropped_total")
    wait.until(lambda: any(s.dropped >= lost for s in ingest.of(Second)), "the loss is told")


def test_the_trace_log_has_one_trace_a_request_with_the_stamp_and_no_text(
    engine: RunningEngine,
) -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    answer = ask(engine, 5, traceparent=parent)
    said = answer.json()
    stamp = json.loads(answer.headers["X-Trimtab-Stamp"])

    def spans() -> list[dict[str, object]]:
        lines = engine.trace_log.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if "0af7651916cd43dd8448eb211c80319c" in line]

    wait.until(lambda: len(spans()) == 4, "the trace is written")
    found = {span["name"]: span for span in spans()}
    root = found[f"chat {engine.model}"]
    assert root["parent_span_id"] == "b7ad6b7169203331"
    assert {str(span["name"]) for span in spans()} - {str(root["name"])} == {
        "queue",
        "prefill",
        "decode",
    }
    attributes = root["attributes"]
    assert isinstance(attributes, dict)
    assert attributes["gen_ai.response.id"] == said["id"]
    assert attributes["gen_ai.usage.output_tokens"] == 5
    assert attributes["trimtab.version"] == stamp["version"]
    assert attributes["trimtab.digest"] == stamp["digest"]
    assert attributes["trimtab.incarnation"] == stamp["incarnation"]
    log = engine.trace_log.read_text(encoding="utf-8")
    assert "very long story" not in log
    assert said["choices"][0]["message"]["content"] not in log

"""Records reach the real ingest, once each, and an absent ingest costs the engine nothing."""

from __future__ import annotations

import time

import pytest

from engine.generation import Load, StepRecord
from engine.live_settings import system_clock
from engine.settings_in_force import Instant
from engine.stamps import seen
from engine.telemetry.counting import CountingRing, Outgoing
from engine.telemetry.ledger import EndedVisit, Ledger
from engine.telemetry.poster import SignalPoster
from engine.telemetry.ring import TelemetryRing
from engine.telemetry.seconds import SecondsTelemetry
from policies.runtime_config import Stamp
from signals.definitions import StaticDefinitions
from signals.events import (
    Arrived,
    Counted,
    Finished,
    IntentLoad,
    Named,
    Record,
    Second,
    StepMoments,
)
from signals.features.change import FeatureRules
from signals.features.edge import EdgeCounter
from signals.settings import FeatureSettings, IntentSettings
from tests.engine_telemetry.ingesting import KEY, Ingest, wait
from tests.engine_telemetry.requests import STAMP, ended, visit

LIMITS = {"active_cap": 8, "step_token_budget": 128}
LOAD = Load(waiting={"live": 2}, running={"live": 3}, kv_blocks_used=5, kv_blocks_total=9)


def poster(ring: Outgoing, ingest: Ingest, *, key: str = KEY, batch: int = 50) -> SignalPoster:
    return SignalPoster(
        ring,
        url=ingest.url,
        key=key,
        batch=batch,
        linger_s=0.005,
        timeout_s=5.0,
        backoff_max_s=0.2,
    )


def visits(ring: TelemetryRing, count: int) -> None:
    ends: list[EndedVisit] = []
    ledger = Ledger(ring, ends.append)
    for _ in range(count):
        came = visit(time.time())
        ledger.arrived(came)
        ledger.ended(ended(came))
    assert len(ends) == count


def test_every_record_arrives_once_and_in_order() -> None:
    ring = TelemetryRing(1000)
    with Ingest() as ingest:
        posting = poster(ring, ingest)
        posting.start()
        visits(ring, 120)
        assert posting.close(flush_s=10.0)
        assert [record.seq for record in ingest.records] == list(range(240))
    assert posting.refused == 0


def test_a_request_is_told_with_its_times_and_the_stamp_it_arrived_under() -> None:
    ring = TelemetryRing(10)
    came = visit(1_800_000_000.25)
    ledger = Ledger(ring, lambda end: None)
    ledger.arrived(came)
    ledger.ended(ended(came))
    arrived, finished = ring.take(2)
    assert isinstance(arrived, Arrived)
    assert isinstance(finished, Finished)
    assert arrived.stamp == finished.stamp == seen(STAMP)
    assert (arrived.arrival_us, arrived.prompt_tokens) == (1_800_000_000_250_000, 7)
    assert finished.finished_us - finished.arrival_us == 710_000
    assert (finished.queue_us, finished.ttft_us, finished.tpot_us) == (100_000, 300_000, 100_000)
    assert (finished.status, finished.output_tokens, finished.preemptions) == ("ok", 5, 1)


@pytest.mark.parametrize(
    ("finish", "status"),
    [("stop", "ok"), ("length", "ok"), ("cancelled", "cancelled"), ("error", "error"),
     ("rejected", "rejected")],
)  # fmt: skip
def test_each_way_to_end_has_its_status(finish: str, status: str) -> None:
    ring = TelemetryRing(10)
    Ledger(ring, lambda end: None).ended(ended(visit(1.0), finish))
    (finished,) = ring.take(1)
    assert isinstance(finished, Finished)
    assert finished.status == status


def test_while_ingest_is_away_the_latest_are_kept_and_the_lost_are_counted() -> None:
    ring = TelemetryRing(40)
    ingest = Ingest()
    ingest.stop()
    posting = poster(ring, ingest)
    posting.start()
    began_s = time.monotonic()
    visits(ring, 100)
    assert time.monotonic() - began_s < 5.0
    assert (len(ring), ring.dropped) == (40, 160)
    with ingest:
        wait.until(lambda: not len(ring), "the ring is posted once ingest is back")
        posting.close(flush_s=5.0)
        assert [record.seq for record in ingest.records] == list(range(160, 200))


def test_a_wrong_key_loses_nothing_until_the_ring_is_full() -> None:
    ring = TelemetryRing(100)
    with Ingest() as ingest:
        posting = poster(ring, ingest, key="guess")
        posting.start()
        visits(ring, 10)
        assert not posting.close(flush_s=0.5)
        assert ingest.records == []
    assert len(ring) == 20


def test_a_stop_waits_no_longer_than_it_may() -> None:
    ring = TelemetryRing(100)
    ingest = Ingest()
    ingest.stop()
    posting = poster(ring, ingest)
    posting.start()
    visits(ring, 3)
    began_s = time.monotonic()
    assert not posting.close(flush_s=0.3)
    assert time.monotonic() - began_s < 3.0


def test_a_signal_that_ingest_refuses_is_counted_and_does_not_stop_the_others() -> None:
    ring = TelemetryRing(100)
    ledger = Ledger(ring, lambda end: None)
    ledger.arrived(visit(time.time(), stamp=_stamp_of("elsewhere")))
    visits(ring, 1)
    with Ingest() as ingest:
        posting = poster(ring, ingest)
        posting.start()
        wait.until(lambda: not len(ring), "all are settled")
        posting.close(flush_s=5.0)
        assert [record.seq for record in ingest.records] == [1, 2]
    assert posting.refused == 1


def _stamp_of(target: str) -> Stamp:
    return Stamp(target=target, replica="r0", incarnation="cafe", version=0, digest="00")


def at(mono_s: float) -> Instant:
    return Instant(mono_s=mono_s, wall_s=1_800_000_000.0 + mono_s)


def step(**fields: int) -> StepRecord:
    from engine.generation import Limits

    return StepRecord(
        began_s=0.0,
        took_s=fields.get("took_ms", 20) / 1000,
        decode=fields.get("decode", 2),
        prefill_tokens=fields.get("prefill", 3),
        output_tokens={"live": fields.get("decode", 2)},
        preempted=fields.get("preempted", 0),
        limits=Limits(active_cap=8, step_token_budget=128),
    )


def test_a_second_sums_its_steps_so_that_the_curve_can_be_fitted() -> None:
    ring = TelemetryRing(10)
    seconds = SecondsTelemetry(ring, length_s=1.0, now=at(0.0))
    seconds.arrived("live", 40)
    seconds.stepped(step())
    seconds.stepped(step(decode=1, prefill=0, took_ms=10, preempted=1))
    seconds.passed(STAMP, STAMP, LOAD, LIMITS, at(0.5))
    assert len(ring) == 0
    seconds.passed(STAMP, STAMP, LOAD, LIMITS, at(1.0))
    (second,) = ring.take(1)
    assert isinstance(second, Second)
    assert second.steps == StepMoments(
        n=2, b=3, f=3, t=30_000, bb=5, bf=6, ff=9, bt=50_000, ft=60_000, tt=500_000_000
    )
    assert second.intents == {
        "live": IntentLoad(arrivals=1, offered_tokens=40, output_tokens=3, waiting=2, running=3)
    }
    assert (second.from_us, second.to_us - second.from_us) == (1_800_000_000_000_000, 1_000_000)
    assert (second.preemptions, second.knobs, second.kv_blocks_used) == (1, LIMITS, 5)


def test_a_second_never_spans_two_stamps() -> None:
    ring = TelemetryRing(10)
    seconds = SecondsTelemetry(ring, length_s=1.0, now=at(0.0))
    other = _stamp_of("chat")
    seconds.arrived("live", 1)
    seconds.passed(STAMP, other, LOAD, LIMITS, at(0.25))
    seconds.arrived("live", 1)
    seconds.arrived("live", 1)
    seconds.passed(other, other, LOAD, LIMITS, at(1.25))
    first, second = ring.take(2)
    assert isinstance(first, Second)
    assert isinstance(second, Second)
    assert (first.stamp, second.stamp) == (seen(STAMP), seen(other))
    assert first.to_us == second.from_us
    assert [each.intents["live"].arrivals for each in (first, second)] == [1, 2]


def test_a_step_costs_a_few_microseconds() -> None:
    ring = TelemetryRing(10)
    seconds = SecondsTelemetry(ring, length_s=1e9, now=system_clock())
    one = step()
    began_s = time.perf_counter()
    for _ in range(10_000):
        seconds.stepped(one)
        seconds.passed(STAMP, STAMP, LOAD, LIMITS, at(0.0))
    assert (time.perf_counter() - began_s) / 10_000 < 100e-6


def test_an_engine_that_counts_for_itself_posts_windows_and_names_once() -> None:
    ring = TelemetryRing(1000)
    rules = FeatureRules(
        intents={STAMP.target: {"live": IntentSettings()}},
        definitions=StaticDefinitions({}),
        settings=FeatureSettings(),
    )
    with Ingest() as ingest:
        counting = CountingRing(ring, EdgeCounter(rules, source="r0.cafe"))
        posting = poster(counting, ingest)
        posting.start()
        visits(ring, 120)
        assert posting.close(flush_s=10.0)
        records = ingest.records
    assert {type(record) for record in records} == {Counted, Named}
    assert [record.seq for record in records] == list(range(len(records)))
    named = [one for record in records if isinstance(record, Named) for one in record.requests]
    assert len({one.request_id for one in named}) == len(named) == 120
    latest = {
        (record.intent, record.start_us): record.counts
        for record in records
        if isinstance(record, Counted)
    }
    assert sum(counts.requests for counts in latest.values()) == 120
    assert sum(counts.completed for counts in latest.values()) == 120


def test_what_was_counted_is_offered_again_as_it_was_when_it_did_not_arrive() -> None:
    ring = TelemetryRing(100)
    rules = FeatureRules(intents={}, definitions=StaticDefinitions({}), settings=FeatureSettings())
    counting = CountingRing(ring, EdgeCounter(rules, source="r0.cafe"))
    visits(ring, 3)
    first = list(counting.take(50))
    counting.give_back()
    visits(ring, 3)
    assert counting.take(50) == first
    counting.done()
    assert len(counting) == 6


def test_a_clock_that_was_put_back_loses_the_records_of_that_time_and_leaves_a_gap() -> None:
    ring = TelemetryRing(100)
    rules = FeatureRules(intents={}, definitions=StaticDefinitions({}), settings=FeatureSettings())
    counting = CountingRing(ring, EdgeCounter(rules, source="r0.cafe"))
    t0_us = 1_790_000_000_000_000

    def arrived(seq: int) -> Arrived:
        return Arrived(
            seq=seq,
            stamp=seen(STAMP),
            request_id=f"chat.{seq}",
            intent="live",
            class_="interactive",
            arrival_us=t0_us + (2000, 2001, 0, 2002)[seq] * 1_000_000,
            prompt_tokens=1,
            max_tokens=1,
        )

    told: list[Record] = []
    for _ in range(2):
        ring.push(arrived)
        ring.push(arrived)
        told += counting.take(50)
        counting.done()
    names = [r.request_id for one in told if isinstance(one, Named) for r in one.requests]
    assert names == ["chat.0", "chat.1", "chat.3"]
    numbers = [record.seq for record in told]
    assert len(set(range(max(numbers) + 1)) - set(numbers)) == 1

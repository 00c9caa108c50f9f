"""The benchmark's load: what it posts, and that its report can be believed."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from benchmarks.figures import Figures
from benchmarks.ingest.__main__ import AIMS
from benchmarks.ingest.bodies import EVENT_BYTES, business, event_id_parts, numbered
from benchmarks.ingest.latency import delays_ms
from benchmarks.ingest.load import Spec
from benchmarks.ingest.mix import Mix
from benchmarks.ingest.running import load
from benchmarks.pipeline import Pipeline, Shape
from signals.bus.sqlite import SqliteBusReader
from signals.events import MICROS, Signal
from signals.wire import read_posted

NOW_US = 1_790_000_000 * MICROS
POST = 50


def test_every_event_of_a_post_has_its_size_and_ids_of_its_own() -> None:
    body = business(POST, targets=("chat", "code"), now_us=NOW_US, seed=1)
    ids = set()
    for number in (0, 7, 99_999_999):
        lines = numbered(body, number).split(b"\n")
        assert {len(line) for line in lines} == {EVENT_BYTES}
        posted = [read_posted(line) for line in lines]
        assert [event_id_parts(each.id) for each in posted] == [(number, n) for n in range(POST)]
        ids |= {each.id for each in posted} | {each.request_id for each in posted}
    assert len(ids) == 2 * 3 * POST


def test_the_mix_is_the_same_for_a_seed_and_each_request_gets_feedback_once() -> None:
    def made(seed: int) -> list[Signal]:
        mix = Mix("chat", seed=seed, since_us=NOW_US)
        return [s for n in range(3_000) for s in mix.signals(NOW_US + n * 3_000)]

    signals = made(3)
    assert signals == made(3)
    assert signals != made(4)
    counted = Counter(signal.name for signal in signals)
    assert counted["arrived"] == counted["finished"] == 3_000
    assert (counted["thumbs"], counted["second"]) == (2_500, 8)
    named = Counter(
        tuple(str(one).rpartition("-")[2][-6:] for one in (s.request_id, s.external_id) if one)
        for s in signals
        if s.name == "thumbs" and s.session_id is None
    )
    assert max(named.values()) == 1


def test_a_post_is_shown_when_everything_before_it_is_shown_too() -> None:
    sent = [(1.0, 10), (1.1, 10), (1.2, 5)]
    steps = [(1.05, 9), (1.3, 10), (1.4, 24), (2.0, 25)]
    assert delays_ms(sent, steps) == pytest.approx([300.0, 300.0, 800.0])


def test_what_the_load_says_was_acknowledged_is_on_the_bus_once(tmp_path: Path) -> None:
    with Pipeline(tmp_path, Shape()) as pipeline:
        key = pipeline.key("shop", "business")
        pipeline.start("ingest")
        pipeline.wait("ingest to be ready", pipeline.ingest_ready)
        spec = Spec(port=pipeline.port, key=key, mode="closed", events=POST, connections=4)
        report = load(msgspec.structs.replace(spec, warm_s=0.1, seconds=0.5))
        found: Counter[tuple[int, int]] = Counter()
        with closing(SqliteBusReader(pipeline.layout.bus)) as bus:
            after = 0
            while entries := bus.read(after=after, limit=5_000):
                after = entries[-1].offset
                bodies = (msgspec.json.decode(entry.body, type=Signal) for entry in entries)
                found.update(event_id_parts(signal.id) for signal in bodies)
    assert report.statuses.keys() == {202}
    assert found == {(post, n): 1 for post in report.acknowledged for n in range(POST)}
    assert 0 < report.events <= len(report.acknowledged) * POST
    assert len(report.latencies_ms) == report.statuses[202]


def test_the_last_line_has_every_key_also_of_what_was_not_run() -> None:
    figures = Figures(AIMS)
    figures.key("batched_eps", 51_234.4)
    assert figures.document() == {**dict.fromkeys(AIMS), "batched_eps": 51_234, "context": {}}
    with pytest.raises(KeyError):
        figures.key("unheard_of", 1.0)

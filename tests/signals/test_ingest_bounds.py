"""What ingest does not take: too fast, too much at once, too slow. All of it before the bus."""

from __future__ import annotations

import asyncio
import gzip

import msgspec
import pytest

from signals.bus.memory import MemoryBus
from signals.codec import decode
from signals.definitions import Definition, StaticDefinitions
from signals.events import MICROS
from signals.ingest.app import make_app
from signals.ingest.rates import Rates, TooFast
from signals.ingest.sorting import SLICE, Sorting
from signals.rules import Rules
from signals.settings import IngestSettings
from tests.signals.asgi import (
    Answer,
    Holding,
    app_on,
    is_unavailable,
    post,
    promising_more,
    run,
    until,
)
from tests.signals.making import METRICS, T0_US
from tests.signals.posted_events import about, event, score
from tests.signals.posting import KEYS, PRODUCERS, TARGETS, Ingest

BODY = msgspec.json.encode([event(id="e1")])


# ------------------------------------------------------------------------------------ a key's rate


def test_a_bucket_holds_a_second_and_fills_at_its_rate() -> None:
    rates = Rates()
    for _ in range(10):
        rates.take("shop", 10.0, events=1, now_us=0)
    with pytest.raises(TooFast) as refused:
        rates.take("shop", 10.0, events=1, now_us=0)
    assert refused.value.retry_after_s == pytest.approx(0.1)
    rates.take("other", 10.0, events=1, now_us=0)
    rates.take("shop", 10.0, events=1, now_us=100_000)
    with pytest.raises(TooFast):
        rates.take("shop", 10.0, events=1, now_us=199_000)
    rates.take("shop", 10.0, events=10, now_us=3_600 * MICROS)
    with pytest.raises(TooFast):
        rates.take("shop", 10.0, events=1, now_us=3_600 * MICROS)


def test_over_time_no_more_passes_than_the_rate_whatever_the_posts_sizes() -> None:
    rates, passed = Rates(), 0
    for at_ms in range(0, 60_000, 7):
        try:
            rates.take("shop", 10.0, events=1 + at_ms % 37, now_us=at_ms * 1000)
        except TooFast:
            continue
        passed += 1 + at_ms % 37
    assert 600 - 37 <= passed <= 600 + 10 + 37


def test_a_clock_that_goes_back_gives_no_tokens_twice() -> None:
    rates = Rates()
    rates.take("shop", 10.0, events=10, now_us=MICROS)
    for now_us in (0, MICROS, 0, MICROS):
        with pytest.raises(TooFast):
            rates.take("shop", 10.0, events=1, now_us=now_us)


def test_a_clock_that_is_set_back_an_hour_does_not_stop_a_producer_for_an_hour() -> None:
    rates, hour_us = Rates(), 3_600 * MICROS
    rates.take("shop", 10.0, events=10, now_us=hour_us)
    with pytest.raises(TooFast):
        rates.take("shop", 10.0, events=1, now_us=0)
    rates.take("shop", 10.0, events=5, now_us=MICROS // 2)
    with pytest.raises(TooFast):
        rates.take("shop", 10.0, events=1, now_us=MICROS // 2)


def test_too_fast_is_429_with_retry_after_and_nothing_is_taken() -> None:
    ingest = Ingest()
    assert ingest.post([event(id=f"e{n}") for n in range(8)], key="slow-key").status_code == 202
    assert len(ingest.arrived()) == 8
    answer = ingest.post([event(id=f"f{n}") for n in range(5)], key="slow-key")
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "1"
    assert answer.headers["content-type"] == "application/problem+json"
    assert "10 events per second" in answer.json()["detail"]
    assert ingest.arrived() == []
    assert ingest.post(event(), key="all-key").status_code == 202
    ingest.now_us += 300_000
    assert ingest.post([event(id=f"f{n}") for n in range(5)], key="slow-key").status_code == 202


def test_a_post_larger_than_the_rate_passes_and_is_paid_for_afterwards() -> None:
    ingest = Ingest()
    assert ingest.post([event(id=f"e{n}") for n in range(40)], key="slow-key").status_code == 202
    answer = ingest.post(event(id="next"), key="slow-key")
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "4")
    ingest.now_us += 3_100_000
    assert ingest.post(event(id="next"), key="slow-key").status_code == 202


def test_an_empty_bucket_is_said_before_the_body_is_read() -> None:
    async def scenario() -> None:
        app = app_on(MemoryBus())
        ten = msgspec.json.encode([event(id=f"e{n}") for n in range(10)])
        assert (await post(app, ten, key="slow-key")).status == 202
        answer = await post(app, None, key="slow-key")
        assert (answer.status, answer.reads) == (429, 0)

    run(scenario())


def test_events_that_did_not_become_durable_are_not_counted_against_the_rate() -> None:
    async def scenario() -> None:
        bus = Holding()
        app = app_on(bus)
        ten = msgspec.json.encode([event(id=f"e{n}") for n in range(10)])
        for _ in range(3):
            answering = asyncio.create_task(post(app, ten, key="slow-key"))
            await until(lambda: bool(bus.held))
            bus.fail()
            assert is_unavailable(await answering)

    run(scenario())


# ------------------------------------------------------------------------------- bytes in hand


def test_beyond_the_bytes_in_hand_it_is_503_and_the_body_is_not_read() -> None:
    async def scenario() -> None:
        bus = Holding()
        app = app_on(bus, max_inflight_bytes=1_048_576, max_body_bytes=1_048_576)
        first = asyncio.create_task(post(app, BODY + b" " * 700_000, content_length="700001"))
        await until(lambda: bool(bus.held))
        answer = await post(app, None, content_length="400000")
        assert is_unavailable(answer)
        assert answer.reads == 0
        assert "are in hand" in answer.body["detail"]
        small = asyncio.create_task(post(app, BODY, content_length=str(len(BODY))))
        await until(lambda: len(bus.held) == 2)
        bus.let_go()
        assert [(await each).status for each in (first, small)] == [202, 202]
        again = asyncio.create_task(post(app, BODY + b" " * 1_000_000, content_length="1000001"))
        await until(lambda: bool(bus.held))
        bus.let_go()
        assert (await again).status == 202

    run(scenario())


def test_a_body_without_a_length_is_given_up_when_there_is_no_room_for_its_next_chunk() -> None:
    async def scenario() -> None:
        app = app_on(MemoryBus(), max_inflight_bytes=1_048_576)
        answer = await post(app, *[b" " * 300_000] * 6)
        assert is_unavailable(answer)
        assert answer.reads == 4
        assert (await post(app, BODY)).status == 202

    run(scenario())


def test_what_a_gzip_expands_to_is_in_hand_too() -> None:
    async def scenario() -> None:
        app = app_on(MemoryBus(), max_inflight_bytes=1_048_576)
        packed = gzip.compress(b" " * 2_000_000)
        assert is_unavailable(await post(app, packed, content_encoding="gzip"))
        assert (await post(app, BODY)).status == 202

    run(scenario())


def test_refusals_that_wait_for_a_commit_are_in_hand_too() -> None:
    async def scenario() -> None:
        bus = Holding()
        app = app_on(bus, max_inflight_bytes=1_048_576)
        mostly_bad = b"[" + BODY[1:-1] + b",0" * 9_900 + b"]"
        first = asyncio.create_task(post(app, mostly_bad))
        await until(lambda: bool(bus.held))
        assert is_unavailable(await post(app, mostly_bad))
        bus.let_go()
        answer = await first
        assert answer.body["accepted"] == 1
        assert len(answer.body["refused"]) == 9_900

    run(scenario())


def test_beyond_the_connections_it_is_503_and_nothing_is_read() -> None:
    async def scenario() -> None:
        assert (await post(app_on(MemoryBus()), BODY, surplus=False)).status == 202
        answer = await post(app_on(MemoryBus()), None, surplus=True)
        assert is_unavailable(answer)
        assert answer.reads == 0

    run(scenario())


# ------------------------------------------------------------------------------------------ time


def test_a_body_that_does_not_come_is_408() -> None:
    async def scenario() -> None:
        bus = MemoryBus()
        app = app_on(bus, body_timeout_s=0.02, max_inflight_bytes=1_048_576)
        for _ in range(3):
            for chunks in ((b"[", None), (None,)):
                answer = await post(app, *chunks, content_length="1000000")
                assert (answer.status, answer.body["title"]) == (408, "TooSlow")
        assert bus.end() == 0

    run(scenario())


def test_half_a_body_whose_client_hangs_up_is_not_taken() -> None:
    async def scenario() -> None:
        bus = MemoryBus()
        line = msgspec.json.encode(event())

        async def hang_up() -> Answer:
            return await post(app_on(bus), line + b"\n", content_type="application/x-ndjson")

        assert (await hang_up()).status == 202
        app = app_on(bus)
        chunks = [line + b"\n"]
        answer = await post(promising_more(app), *chunks, content_type="application/x-ndjson")
        assert answer.status == 400
        assert bus.end() == 1

    run(scenario())


def test_an_acknowledgement_waits_for_the_commit_and_a_failed_one_is_503() -> None:
    async def scenario() -> None:
        bus = Holding()
        app = app_on(bus)
        posts = [asyncio.create_task(post(app, BODY)) for _ in range(5)]
        await until(lambda: bool(bus.held))
        await asyncio.sleep(0.01)
        assert not any(each.done() for each in posts)
        assert [len(batch) for batch, _ in bus.held] == [5], "one append for one round of the loop"
        bus.let_go()
        assert [(await each).status for each in posts] == [202] * 5
        failing = asyncio.create_task(post(app, BODY))
        await until(lambda: bool(bus.held))
        bus.fail()
        answer = await failing
        assert is_unavailable(answer)
        assert answer.headers["retry-after"] == "2"

    run(scenario())


def test_a_long_post_is_judged_in_slices() -> None:
    rules = Rules(
        producer=PRODUCERS["all-key"],
        definitions=StaticDefinitions(METRICS).current(),
        targets=TARGETS,
        settings=IngestSettings(),
        now_us=T0_US,
    )
    lines = b"\n".join(msgspec.json.encode(event(id=f"e{n}")) for n in range(2 * SLICE + 1))
    sorting = Sorting(lines, "application/x-ndjson", rules)
    judged = [len(sorting.outcome.messages) for _ in sorting.pauses()]
    assert judged == [SLICE, 2 * SLICE]
    assert [decode(message.body).id for message in sorting.outcome.messages] == [
        f"e{n}" for n in range(2 * SLICE + 1)
    ]


# ------------------------------------------------------------------------ what follows from what


def test_the_target_follows_from_the_key_or_from_the_only_one_declared() -> None:
    ingest = Ingest()
    unnamed = [
        about(id="x", external_id="x1", target=None),
        about(id="s", session_id="s1", target=None),
    ]
    assert ingest.post(unnamed, key="chat-key").json()["accepted"] == 2
    assert [(s.target, s.external_id, s.session_id) for s in ingest.arrived()] == [
        ("chat", "x1", None),
        ("chat", None, "s1"),
    ]
    ambiguous = ingest.post(unnamed, key="all-key")
    assert ambiguous.status_code == 422
    assert ambiguous.json()["refused"][0]["allowed"] == ["chat", "code"]
    nowhere = ingest.post(unnamed, key="gone-key").json()["refused"][0]
    assert (nowhere["field"], nowhere["reason"]) == ("target", "the key has no target here")


class Revised:
    """Definitions of which one came into force a moment ago."""

    def __init__(self) -> None:
        self.asked = 0
        old = StaticDefinitions(METRICS).current()
        wider = METRICS["stars"].model_copy(update={"high": 10.0})
        newer = msgspec.structs.replace(old["stars"], version=2, metric=wider)
        self._current = [dict(old), dict(old) | {"stars": newer}]

    def current(self) -> dict[str, Definition]:
        self.asked += 1
        return self._current[min(self.asked, 2) - 1]

    def version(self, name: str, version: int) -> Definition | None:
        return self._current[version - 1].get(name)


def test_events_carry_the_definition_in_force_which_is_asked_once_a_post() -> None:
    async def scenario() -> None:
        bus, revised = MemoryBus(), Revised()
        app = make_app(
            bus=bus,
            keys=KEYS,
            definitions=revised,
            targets=TARGETS,
            settings=IngestSettings(),
            clock=lambda: T0_US,
        )
        stars = [
            event(id="a", name="stars", value=5),
            event(id="b", name="stars", value=7),
            score(),
        ]
        first = await post(app, msgspec.json.encode(stars))
        assert [each["id"] for each in first.body["refused"]] == ["b"]
        second = await post(app, msgspec.json.encode(stars))
        assert second.body["refused"] == []
        assert revised.asked == 2
        signals = [decode(entry.body) for entry in bus.read(after=0, limit=10)]
        assert [(s.name, s.definition, s.model) for s in signals] == [
            ("stars", 1, None),
            ("reward", 1, "m1"),
            ("stars", 2, None),
            ("stars", 2, None),
            ("reward", 1, "m1"),
        ]

    run(scenario())

"""What became of each producer's events, and whose clock is off."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from signals.events import MICROS, Signal
from signals.features.producers import Delays, clock_report
from signals.features.reader import SqliteFeatures
from signals.settings import FeatureSettings
from tests.signals.making import T0_US, arrived, feedback, second, stamp
from tests.signals.on_the_bus import OnTheBus

HOUR_US = 3600 * MICROS
SEED = 7


@pytest.fixture
def line(tmp_path: Path) -> Iterator[OnTheBus]:
    made = OnTheBus(tmp_path)
    yield made
    made.close()


def about(id_: str, at_us: int, *, producer: str = "shop", kind: str = "business") -> Signal:
    name = "copied" if kind == "business" else "reward"
    signal = feedback(id_, at_us, number=1, name=name, producer=producer)
    return Signal(
        **{
            **{field: getattr(signal, field) for field in signal.__struct_fields__},
            "kind": kind,
        }
    )


def test_counts_are_by_kind_and_the_join_rate_is_of_what_is_settled(line: OnTheBus) -> None:
    line.take(
        arrived(0, 1, T0_US),
        about("a", T0_US),
        about("b", T0_US),
        about("b", T0_US),
        about("r", T0_US, kind="semantic"),
        feedback("early", T0_US, number=2),
    )
    report = line.features.producers()["shop"]
    assert (report.events, report.joined, report.waiting, report.duplicate) == (5, 3, 1, 1)
    assert report.join_rate == 1.0, "what waits is not settled"
    assert (report.kinds["business"].joined, report.kinds["semantic"].joined) == (2, 1)
    assert report.kinds["business"].events == 4
    assert (report.last_us, report.accepted_us) == (T0_US, line.now_us)
    assert line.features.producers()["engine"].kinds["basic"].events == 1
    assert line.features.producers()["engine"].join_rate is None


def test_orphans_are_found_by_target_and_producer(line: OnTheBus) -> None:
    offsets = line.take(
        feedback("a", T0_US, number=5),
        feedback("b", T0_US, number=6, producer="other"),
        feedback("c", T0_US, external_id="order-1"),
    )
    features = line.features
    assert [each.signal.id for each in features.orphans(producer="shop")] == ["a", "c"]
    assert [each.signal.id for each in features.orphans(after=offsets[0], limit=1)] == ["b"]
    assert features.orphans(target="elsewhere") == []
    assert features.orphans_by_producer() == {"other": 1, "shop": 2}
    assert features.orphans_by_producer(target="elsewhere") == {}
    assert features.orphans_waiting(producer="other", target="chat") == 1
    assert features.orphans_waiting() == 3


def test_letters_are_found_by_reason_producer_and_target(line: OnTheBus) -> None:
    line.take(arrived(0, 1, T0_US))
    line.take(
        feedback("a", T0_US, number=1, name="liked"),
        feedback("b", T0_US, number=1, name="liked", producer="other"),
        b"{",
    )
    features = line.features
    assert [each.event_id for each in features.dead_letters(producer="shop")] == ["a", ""]
    assert [each.producer for each in features.dead_letters(reason="undeclared_metric")] == [
        "shop",
        "other",
    ]
    assert features.dead_letters(target="elsewhere") == []
    first = features.dead_letters(limit=1)[0]
    assert len(features.dead_letters(after=first.offset)) == 2
    assert features.dead_letter_counts() == {"undecodable": 1, "undeclared_metric": 2}
    assert features.dead_letter_counts(producer="other") == {"undeclared_metric": 1}
    assert features.dead_letter(999) is None


def test_a_clock_that_runs_ahead_and_one_that_runs_behind_are_flagged(line: OnTheBus) -> None:
    line.take(arrived(0, 1, T0_US))
    line.now_us = T0_US + 400 * MICROS
    for n in range(5):
        line.take(
            about(f"r{n}", line.now_us - 100_000, producer="right"),
            about(f"a{n}", line.now_us + 3 * MICROS, producer="ahead"),
            about(f"b{n}", line.now_us - 350 * MICROS, producer="behind"),
        )
        line.now_us += MICROS
    found = line.features.producers()
    assert found["right"].clock.flags == ()
    assert found["right"].clock.median_delay_ms == pytest.approx(100, rel=0.02)
    ahead = found["ahead"].clock
    assert (ahead.flags, ahead.ahead, ahead.events) == (("ahead",), 5, 5)
    assert ahead.most_ahead_ms == 3000
    assert ahead.median_delay_ms == pytest.approx(-3000, rel=0.02)
    behind = found["behind"].clock
    assert (behind.flags, behind.least_delay_ms) == (("behind",), 350_000)
    settings = FeatureSettings(clock_ahead_ms=4000, clock_behind_s=400)
    with closing(SqliteFeatures(line.file, settings=settings)) as lenient:
        assert lenient.producers()["ahead"].clock.flags == ()
        assert lenient.producers()["behind"].clock.flags == ()


def test_a_clock_that_was_put_right_is_soon_seen_as_right(line: OnTheBus) -> None:
    line.take(arrived(0, 1, T0_US), about("a", line.now_us + 60 * MICROS))
    for n in range(2):
        line.now_us += HOUR_US
        line.take(about(f"b{n}", line.now_us - 1000))
    assert line.features.producers()["shop"].clock.flags == ()


def test_an_engine_s_clock_is_watched_too(line: OnTheBus) -> None:
    line.take(
        second(0, line.now_us + 5 * MICROS, by=stamp(replica="fast")),
        second(0, line.now_us - 1000, by=stamp(replica="right")),
    )
    clocks = {each.replica: each.clock for each in line.features.engines("chat")}
    assert (clocks["fast"].flags, clocks["fast"].most_ahead_ms) == (("ahead",), 5000)
    assert (clocks["right"].flags, clocks["right"].least_delay_ms) == ((), 1)


def test_delays_add_up_in_any_order_and_the_median_is_within_two_percent() -> None:
    rng = Random(SEED)
    times = [
        (T0_US + rng.randrange(HOUR_US), rng.randrange(-2 * MICROS, 50 * MICROS))
        for _ in range(2001)
    ]
    whole, shuffled, parts = Delays(), Delays(), [Delays() for _ in range(4)]
    for at_us, delay_us in times:
        whole.add(at_us, at_us - delay_us, sketched=True)
    for index, (at_us, delay_us) in enumerate(rng.sample(times, len(times))):
        parts[index % 4].add(at_us, at_us - delay_us, sketched=True)
    for part in parts:
        shuffled.merge(part)
    assert whole == shuffled
    exact_us = sorted(delay_us for _, delay_us in times)[1000]
    report = clock_report(whole, FeatureSettings())
    assert report.median_delay_ms == pytest.approx(exact_us / 1000, rel=0.02), f"seed {SEED}"
    assert report.most_ahead_ms == max(-delay_us for _, delay_us in times) / 1000

"""Where a tail begins, what it shows, and what it never shows."""

from __future__ import annotations

import msgspec
import pytest

from controller.cli import tailing
from controller.cli.tailing import Wanted
from signals.bus.memory import MemoryBus
from signals.bus.port import Message
from signals.codec import encode
from signals.errors import Rejected
from signals.events import MICROS, Record, Signal
from tests.signals.making import T0_US, arrived, basic, feedback, finished, second, started

PROMPT = "tell me a secret"


def bus_of(*signals: Signal | Record) -> MemoryBus:
    """One event a second."""
    bus = MemoryBus()
    for number, each in enumerate(signals):
        signal = each if isinstance(each, Signal) else basic(each)
        accepted_us = T0_US + number * MICROS
        message = Message(
            key=signal.target,
            body=encode(signal),
            producer=signal.producer,
            accepted_us=accepted_us,
        )
        bus.append([message]).result()
    return bus


def shown(bus: MemoryBus, wanted: Wanted, *, after: int = 0) -> list[str]:
    found = tailing.read({0: bus}, {0: after}, wanted)
    return [tailing.line(each) for each in found]


EVENTS = (
    started(0, T0_US),
    arrived(1, 1, T0_US),
    second(2, T0_US),
    msgspec.structs.replace(finished(3, 1, T0_US, T0_US + MICROS), error=PROMPT),
    feedback("a", T0_US, number=1),
    feedback("b", T0_US, external_id="order-7", name="stars", value=4.0, producer="mall"),
)


def test_each_event_is_one_line_that_says_what_it_is() -> None:
    lines = shown(bus_of(*EVENTS), Wanted())
    assert len(lines) == len(EVENTS)
    for line, word in zip(
        lines, ("up", "live", "waiting", "live ok", "copied  1", "order-7"), strict=True
    ):
        assert word in line


def test_events_are_chosen_by_target_kind_name_and_producer() -> None:
    bus = bus_of(*EVENTS)
    assert len(shown(bus, Wanted(kind="basic"))) == 4
    assert len(shown(bus, Wanted(name="second"))) == 1
    assert len(shown(bus, Wanted(producer="mall", kind="business"))) == 1
    assert shown(bus, Wanted(target="search")) == []


def test_nothing_that_could_hold_a_prompt_is_shown() -> None:
    bus = bus_of(*EVENTS)
    body = PROMPT.encode()
    message = Message(key="chat", body=body, producer="shop", accepted_us=T0_US + 60 * MICROS)
    bus.append([message]).result()
    found = list(tailing.read({0: bus}, {0: 0}, Wanted()))
    told = [tailing.line(each) for each in found]
    told += [msgspec.json.encode(tailing.plain(each)).decode() for each in found]
    assert "can't be decoded (16 bytes)" in told[6]
    assert not any(PROMPT in line for line in told)


@pytest.mark.parametrize("since_s", [-1.0, 0.0, 0.5, 1.0, 3.0, 5.0, 6.0])
def test_since_begins_with_the_first_event_accepted_then(since_s: float) -> None:
    bus, since_us = bus_of(*EVENTS), T0_US + round(since_s * MICROS)
    after = tailing.before(bus, since_us)
    times = [entry.accepted_us for entry in bus.read(after=after, limit=100)]
    everything = [entry.accepted_us for entry in bus.read(after=0, limit=100)]
    assert times == [at_us for at_us in everything if at_us >= since_us]


def test_the_last_lines_are_counted_from_the_end() -> None:
    bus = bus_of(*EVENTS)
    assert len(shown(bus, Wanted(), after=tailing.last(bus, 2))) == 2
    assert len(shown(bus, Wanted(), after=tailing.last(bus, 200))) == len(EVENTS)
    assert shown(MemoryBus(), Wanted(), after=tailing.last(MemoryBus(), 20)) == []


def test_partitions_are_shown_together_by_the_time_of_acceptance() -> None:
    one, other = bus_of(*EVENTS), bus_of(*EVENTS)
    found = list(tailing.read({0: one, 1: other}, positions := {0: 0, 1: 4}, Wanted()))
    times = [each.entry.accepted_us for each in found]
    assert times == sorted(times)
    assert len(times) == 8
    assert positions == {0: 6, 1: 6}


@pytest.mark.parametrize("text", ["yesterday", "10", "2026-01-01T00:00:00", ""])
def test_a_moment_without_unit_or_offset_is_refused(text: str) -> None:
    with pytest.raises(Rejected, match="no moment") as refused:
        tailing.moment(text, T0_US, field="--from")
    assert refused.value.field == "--from"


def test_moments_are_spans_before_now_or_points_in_time() -> None:
    assert tailing.moment("10m", T0_US) == T0_US - 600 * MICROS
    assert tailing.moment("1h30m", T0_US) == T0_US - 5400 * MICROS
    assert tailing.moment("2026-01-01T00:00:00+00:00", T0_US) == 1_767_225_600 * MICROS

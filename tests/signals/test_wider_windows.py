"""Minutes, five minutes and hours: merges of what is below, and right however late it comes."""

from __future__ import annotations

from pathlib import Path
from random import Random

import msgspec
import pytest

from signals.events import MICROS, IntentLoad, Record, SeenTrial, Signal
from signals.features.keeping import PART_S
from signals.features.model import WIDTHS_S, WindowCounts, WindowRevision
from signals.features.reader import SqliteFeatures
from signals.features.windows import merge, within
from tests.signals.making import T0_US, Folding, arrived, feedback, finished, second, stamp

HOUR_US = 3600 * MICROS
DAY_US = 24 * HOUR_US
LATE_US = 30 * MICROS
START_US = T0_US - T0_US % HOUR_US + HOUR_US
"""A whole hour."""


def windows(features: SqliteFeatures, width_s: int, intent: str = "live") -> list[WindowRevision]:
    found = features.windows("chat", from_us=START_US, to_us=2**62, width_s=width_s)
    return [window for window in found if window.key.intent == intent]


def hour(features: SqliteFeatures) -> WindowRevision:
    (found,) = [w for w in windows(features, 3600) if w.key.start_us == START_US]
    return found


def an_hour(folding: Folding) -> int:
    """A request a minute, seconds now and then; the next free number."""
    seq = 0
    for minute in range(60):
        at_us = START_US + minute * 60 * MICROS
        load = IntentLoad(arrivals=1, output_tokens=5, waiting=minute)
        folding.take(
            finished(seq, minute, at_us, at_us + 7 * MICROS, ttft_us=1000 * (minute + 1)),
            second(seq + 1, at_us + 8 * MICROS, live=load),
        )
        seq += 2
    return seq


def test_five_minutes_and_hours_are_published_when_they_close(
    folding: Folding, features: SqliteFeatures
) -> None:
    seq = an_hour(folding)
    assert [len(windows(features, width)) for width in (300, 3600)] == [11, 0]
    folding.take(second(seq, START_US + HOUR_US + LATE_US - 1))
    assert windows(features, 3600) == []
    folding.take(second(seq + 1, START_US + HOUR_US + LATE_US))
    assert [len(windows(features, width)) for width in (300, 3600)] == [12, 1]
    assert (hour(features).revision, hour(features).counts.requests) == (1, 60)
    for whole_s, part_s in PART_S.items():
        for window in windows(features, whole_s):
            parts = [w for w in windows(features, part_s) if within(w.key, whole_s) == window.key]
            if window.closed:
                assert window.counts == merge(part.counts for part in reversed(parts))


def test_a_correction_goes_through_every_width(folding: Folding, features: SqliteFeatures) -> None:
    seq = an_hour(folding)
    folding.take(second(seq, START_US + HOUR_US + LATE_US))
    folding.take(feedback("late", START_US + HOUR_US, number=17))
    for width_s in WIDTHS_S:
        (window,) = [w for w in windows(features, width_s) if w.counts.outcomes]
        assert window.counts.outcomes == {"copied": {"shop": (1, MICROS)}}
        assert (window.revision, window.closed) == (2, True)
        assert window.key == within(window.key, width_s)
        assert (
            window.key.start_us
            <= START_US + 17 * 60 * MICROS
            < window.key.start_us + width_s * MICROS
        )
    folding.take(feedback("later", START_US + HOUR_US + 1, number=17, value=0.0))
    assert hour(features).counts.outcomes == {"copied": {"shop": (1, 0)}}
    assert hour(features).revision == 3


@pytest.mark.parametrize("days", [0.05, 0.2, 1.0, 3.0, 6.0])
def test_feedback_days_later_makes_the_bytes_that_an_early_one_would_have(
    tmp_path: Path, days: float
) -> None:
    marks = [
        feedback(f"m{n}", START_US + HOUR_US + n, number=n % 60, name=name, value=n % 2)
        for n, name in enumerate(["copied", "pastes", "resent"] * 20)
    ]
    found = []
    for name, early in (("early", True), ("late", False)):
        folding = Folding(tmp_path / f"{name}.db", prune_rows=1000)
        seq = an_hour(folding)
        if early:
            folding.take(*marks)
        folding.take(second(seq, START_US + HOUR_US + LATE_US))
        folding.take(second(seq + 1, START_US + HOUR_US + round(days * DAY_US)))
        while folding.prune():
            pass
        if not early:
            for mark in marks:
                folding.take(mark)
        folding.close()
        features = SqliteFeatures(tmp_path / f"{name}.db")
        until_us = START_US + HOUR_US
        found.append(
            [
                (window.key, window.closed, window.incomplete, msgspec.json.encode(window.counts))
                for width_s in WIDTHS_S
                for window in features.windows(
                    "chat", from_us=START_US, to_us=until_us, width_s=width_s
                )
            ]
        )
        features.close()
    assert found[0] == found[1]
    kept = {key.width_s for key, *_ in found[0]}
    assert kept == {w for w, until in ((5, 0.08), (60, 2), (300, 2), (3600, 9)) if days < until}


def test_a_gap_is_carried_up_and_taken_back(folding: Folding, features: SqliteFeatures) -> None:
    seq = an_hour(folding)
    folding.take(second(seq + 1, START_US + HOUR_US - 10 * MICROS))
    folding.take(second(seq + 2, START_US + HOUR_US + 2 * LATE_US))
    assert hour(features).incomplete
    flags = [window.incomplete for window in windows(features, 300)]
    assert flags[:12] == [False] * 11 + [True]
    folding.take(second(seq, START_US + HOUR_US - 20 * MICROS))
    assert not hour(features).incomplete
    assert not any(window.incomplete for window in windows(features, 300))
    assert hour(features).counts.covered_us == 62 * MICROS


def test_records_that_come_when_their_atoms_are_gone_still_make_wider_windows(
    folding: Folding, features: SqliteFeatures
) -> None:
    folding.take(second(0, START_US, by=stamp(replica="r1")))
    folding.take(second(1, START_US + 5 * HOUR_US, by=stamp(replica="r1")))
    folding.prune()
    folding.take(finished(0, 1, START_US + MICROS, START_US + 2 * MICROS))
    for width_s, expected in ((5, 0), (60, 1), (300, 1), (3600, 1)):
        found = [w for w in windows(features, width_s) if w.key.replica == "r0"]
        assert len(found) == expected
        for window in found:
            assert (window.counts.completed, window.closed, window.incomplete) == (1, True, True)


def test_a_jump_of_days_closes_everything_in_order_and_loses_nothing(
    path: Path, features: SqliteFeatures
) -> None:
    folding = Folding(path, batch_events=5, prune_rows=1000)
    seq = an_hour(folding)
    folding.take(second(seq, START_US + 3 * DAY_US))
    for step in range(300):
        folding.prune()
        folding.take(second(seq + 1 + step, START_US + 3 * DAY_US + step))
        if windows(features, 3600):
            break
    assert hour(features).counts.requests == 60
    assert hour(features).revision == 1
    folding.close()


def test_windows_of_different_settings_never_mix(
    folding: Folding, features: SqliteFeatures
) -> None:
    for block in range(4):
        by = stamp(digest=f"d{block % 2}", trial=SeenTrial(id="t", block=block, arm="baseline"))
        at_us = START_US + block * 60 * MICROS
        folding.take(arrived(block, block, at_us, by=by), second(10 + block, at_us + MICROS, by=by))
    folding.take(second(20, START_US + 2 * HOUR_US))
    found = windows(features, 3600)
    kept = {(w.key.digest, w.key.block): w.counts.requests for w in found if w.key.trial}
    assert kept == {("d0", 0): 1, ("d1", 1): 1, ("d0", 2): 1, ("d1", 3): 1}


def life(rng: Random) -> tuple[list[Signal | Record], int]:
    """Three hours of a few requests, some with feedback, on two replicas; and its end."""
    end_us = START_US + 3 * HOUR_US
    events: list[Signal | Record] = []
    for replica, first in (("r0", 0), ("r1", 1000)):
        moments: list[tuple[int, str, int]] = [
            (START_US + tick * 20 * MICROS, "second", -1) for tick in range(1, 541)
        ]
        ends = {}
        for number in range(first, first + 40):
            arrival_us = START_US + rng.randrange(3 * HOUR_US - 60 * MICROS)
            ends[number] = (arrival_us, arrival_us + rng.randrange(9 * MICROS))
            moments += [(arrival_us, "arrived", number), (ends[number][1], "finished", number)]
            events += marks(rng, number, arrival_us, end_us)
        by = stamp(replica=replica)
        for seq, (at_us, what, number) in enumerate(sorted(moments)):
            if what == "second":
                load = IntentLoad(arrivals=rng.randint(0, 3), waiting=rng.randint(0, 9))
                events.append(second(seq, at_us, by=by, live=load))
            elif what == "arrived":
                arrival_us = ends[number][0]
                events.append(arrived(seq, number, arrival_us, by=by, session_id=f"s{number % 7}"))
            else:
                events.append(
                    finished(seq, number, *ends[number], by=by, session_id=f"s{number % 7}")
                )
        events.append(second(len(moments), end_us + 2 * LATE_US, by=by))
    return events, end_us


def marks(rng: Random, number: int, arrival_us: int, end_us: int) -> list[Signal]:
    found = []
    for index in range(rng.randint(0, 3)):
        by_session = rng.random() < 0.4
        found.append(
            feedback(
                f"m{number}-{index}",
                min(arrival_us + rng.randrange(HOUR_US), end_us),
                number=None if by_session else number,
                session_id=f"s{number % 7}" if by_session else None,
                name=rng.choice(["copied", "pastes", "resent"]),
                value=rng.randint(0, 1),
                producer=rng.choice(["shop", "app"]),
            )
        )
    return found


def late(rng: Random, events: list[Signal | Record]) -> list[Signal | Record]:
    """Each record up to 0.9 of the lateness late, feedback up to an hour; some twice."""
    doubled = [*events, *(event for event in events if rng.random() < 0.2)]

    def when(event: Signal | Record) -> float:
        if isinstance(event, Signal):
            return event.time_us + rng.random() * HOUR_US
        return time_of(event) + rng.random() * 0.9 * LATE_US

    return sorted(doubled, key=when)


def time_of(event: Signal | Record) -> int:
    from signals.records import event_time_us

    return event.time_us if isinstance(event, Signal) else event_time_us(event)


def everything(
    path: Path, events: list[Signal | Record], rng: Random, end_us: int
) -> dict[str, bytes]:
    folding = Folding(path, atom_retention_s=86_400)
    folding.take_all(events, rng)
    folding.take(*(second(10_000, end_us + 5 * LATE_US, by=stamp(replica=r)) for r in ("r0", "r1")))
    folding.close()
    features = SqliteFeatures(path)
    found: dict[str, list[object]] = {f"{width_s} s": [] for width_s in WIDTHS_S}
    for width_s in WIDTHS_S:
        for window in features.windows("chat", from_us=0, to_us=end_us, width_s=width_s):
            if window.closed and window.counts != WindowCounts():
                found[f"{width_s} s"].append((window.key, window.incomplete, window.counts))
    requests = sorted(row.request_id for row in features.find_requests("chat", limit=1000))
    found["outcomes"] = [
        sorted(features.outcomes(each), key=lambda one: one.event_id) for each in requests
    ]
    found["orphans"] = [sorted(orphan.signal.id for orphan in features.orphans(limit=1000))]
    features.close()
    assert all(found[name] for name in ("5 s", "3600 s", "outcomes"))
    return {name: msgspec.json.encode(each) for name, each in found.items()}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_hours_do_not_know_in_what_order_they_came(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    events, end_us = life(rng)
    in_order = everything(tmp_path / "a.db", sorted(events, key=time_of), rng, end_us)
    shuffled = everything(tmp_path / "b.db", late(rng, events), rng, end_us)
    for what, expected in in_order.items():
        assert shuffled[what] == expected, f"seed {seed}: {what}"


@pytest.mark.parametrize("seed", [4, 5])
def test_corrections_after_hours_converge_to_the_same_counts(tmp_path: Path, seed: int) -> None:
    """Half of one replica's records come when everything has closed."""
    rng = Random(seed)
    events, end_us = life(rng)
    by_id = [e for e in events if not (isinstance(e, Signal) and e.session_id)]
    held = [
        e
        for e in by_id
        if not isinstance(e, Signal) and rng.random() < 0.5 and e.stamp.replica == "r1"
    ]
    rest = [e for e in by_id if e not in held]
    in_order = everything(tmp_path / "a.db", sorted(by_id, key=time_of), rng, end_us)
    rng.shuffle(held)
    corrected = everything(tmp_path / "b.db", [*sorted(rest, key=time_of), *held], rng, end_us)
    for what, expected in in_order.items():
        assert corrected[what] == expected, f"seed {seed}: {what}"

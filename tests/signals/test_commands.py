"""Dead letters replayed and discarded, producers set aside: once, in order, and accounted for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from signals.errors import Rejected
from signals.events import MICROS, LetterSelection, SeenTrial, Signal
from signals.features.batch import Event
from signals.features.joining import Join
from signals.features.operating import letter_place
from signals.settings import MetricSettings
from tests.signals.making import METRICS, T0_US, arrived, feedback, request_id, second, stamp
from tests.signals.on_the_bus import (
    OPERATOR,
    OnTheBus,
    accounted,
    commanded,
    discard,
    folded_afresh,
    quarantine,
    replay,
)

DAY_US = 86_400 * MICROS
LIKED = feedback("a", T0_US, number=1, name="liked")
WITH_LIKED = {**METRICS, "liked": MetricSettings()}


@pytest.fixture
def line(tmp_path: Path) -> Iterator[OnTheBus]:
    made = OnTheBus(tmp_path)
    yield made
    made.close()


def reasons(line: OnTheBus) -> list[tuple[str, str, int]]:
    return [(each.event_id, each.reason, each.attempts) for each in line.features.dead_letters()]


def joined(line: OnTheBus, number: int = 1) -> list[str]:
    return [each.event_id for each in line.features.outcomes(request_id(number))]


def test_a_letter_whose_metric_was_declared_since_is_counted_by_its_replay(line: OnTheBus) -> None:
    (_, offset) = line.take(arrived(0, 1, T0_US), LIKED)
    assert reasons(line) == [("a", "undeclared_metric", 0)]
    line.declare(WITH_LIKED)
    outcome = line.order(replay(offset))
    assert (outcome.done, outcome.failed, outcome.absent) == (1, 0, 0)
    assert (outcome.actor, outcome.command) == (OPERATOR, "replay")
    assert reasons(line) == []
    assert joined(line) == ["a"]
    windows = line.features.windows("chat", from_us=0, to_us=2**62)
    assert sum(w.counts.outcomes["liked"]["shop"][0] for w in windows if w.key.width_s == 5) == 1
    assert line.features.producers()["shop"].replayed == 1
    line.take(LIKED)
    assert joined(line) == ["a"], "and what comes again is a duplicate, as if it had come first"
    accounted(line)


def test_a_replay_that_fails_leaves_the_letter_with_its_new_reason(tmp_path: Path) -> None:
    stars = feedback("s", T0_US + 2 * 3600 * MICROS, number=1, name="stars")
    without = {name: metric for name, metric in METRICS.items() if name != "stars"}
    line = OnTheBus(tmp_path, metrics=without)
    (_, offset) = line.take(arrived(0, 1, T0_US), stars)
    before = line.features.dead_letters()[0]
    line.order(replay(offset))
    assert reasons(line) == [("s", "undeclared_metric", 1)]
    line.declare(METRICS)
    outcome = line.order(replay(offset))
    assert (outcome.done, outcome.failed) == (0, 1)
    assert reasons(line) == [("s", "outside_attribution", 2)]
    after = line.features.dead_letter(offset)
    assert after is not None
    assert (after.id, after.body, after.accepted_us) == (f"0-{offset}", before.body, T0_US)
    report = line.features.producers()["shop"]
    assert (report.dead, report.dead_by_reason) == (1, {"undeclared_metric": 1})
    accounted(line)
    line.close()


def test_a_command_is_carried_out_once_however_often_it_comes(line: OnTheBus) -> None:
    (_, offset) = line.take(arrived(0, 1, T0_US), LIKED)
    command = commanded("c", replay(offset))
    line.take(command, command)
    line.take(command)
    assert reasons(line) == [("a", "undeclared_metric", 1)]
    assert [each.id for each in line.features.commands()] == ["c"]
    assert line.features.producers()["serve"].duplicate == 2
    line.take(commanded("c", discard(offset)))
    assert [letter.reason for letter in line.features.dead_letters()] == [
        "undeclared_metric",
        "conflict",
    ]


def test_a_command_meets_what_came_before_it_in_the_same_batch_and_nothing_after(
    line: OnTheBus,
) -> None:
    first = line.reader.end() + 1
    line.take(
        LIKED,
        arrived(0, 1, T0_US),
        commanded("c", discard(where=LetterSelection(reason="undeclared_metric"))),
        feedback("b", T0_US, number=1, name="liked"),
        feedback("c", T0_US, number=1),
    )
    outcome = line.features.command("c")
    assert outcome is not None
    assert (outcome.done, outcome.last_offset) == (1, first), "the orphan died when it was joined"
    assert reasons(line) == [("b", "undeclared_metric", 0)]
    assert joined(line) == ["c"]


def test_offsets_without_a_letter_are_absent_and_those_beyond_the_bound_left(
    tmp_path: Path,
) -> None:
    line = OnTheBus(tmp_path, command_letters=3)
    offsets = line.take(*(feedback(f"x{n}", T0_US, number=1, name="liked") for n in range(5)))
    line.take(arrived(0, 1, T0_US))
    outcome = line.order(replay(900, 901, 2**70, 902))
    assert (outcome.done, outcome.failed, outcome.absent, outcome.left) == (0, 0, 3, 1)
    outcome = line.order(replay(*offsets, offsets[0]))
    assert (outcome.failed, outcome.absent, outcome.left) == (3, 0, 2)
    assert [attempts for _, _, attempts in reasons(line)] == [1, 1, 1, 0, 0]
    line.close()


def test_letters_are_chosen_by_what_they_are_a_part_at_a_time(tmp_path: Path) -> None:
    line = OnTheBus(tmp_path, command_letters=3)
    line.take(arrived(0, 1, T0_US))
    line.take(*(feedback(f"x{n}", T0_US, number=1, name="liked") for n in range(5)))
    line.take(feedback("y", T0_US, number=1, name="liked", producer="other"), b"{")
    first = line.order(replay(where=LetterSelection(producer="shop", reason="undeclared_metric")))
    assert (first.failed, first.left) == (3, 2)
    line.declare(WITH_LIKED)
    rest = LetterSelection(producer="shop", after=first.last_offset, limit=2)
    second_ = line.order(replay(where=rest))
    assert (second_.done, second_.left) == (2, 1), "left is the one that can't be read"
    assert [id_ for id_, _, _ in reasons(line)] == ["x0", "x1", "x2", "y", ""]
    assert line.order(discard(where=LetterSelection(target="elsewhere"))).done == 0
    assert line.order(discard(where=LetterSelection(target="chat", limit=1000))).done == 3
    assert line.order(discard(where=LetterSelection())).done == 2
    assert reasons(line) == []
    accounted(line)
    line.close()


def test_what_is_discarded_goes_and_is_counted(line: OnTheBus) -> None:
    (_, offset, unread) = line.take(arrived(0, 1, T0_US), LIKED, b"{")
    assert line.order(discard(offset, unread)).done == 2
    assert line.features.dead_letters() == []
    report = line.features.producers()["shop"]
    assert (report.dead, report.discarded) == (2, 2)
    line.take(LIKED)
    assert line.features.dead_letters() == [], "posted again it is a duplicate: it came before"
    accounted(line)


def test_a_conflict_stays_one_until_what_came_first_was_discarded(line: OnTheBus) -> None:
    other = feedback("a", T0_US, number=1, name="copied")
    (_, first, second_) = line.take(arrived(0, 1, T0_US), LIKED, other)
    assert [reason for _, reason, _ in reasons(line)] == ["undeclared_metric", "conflict"]
    assert line.order(replay(second_)).failed == 1
    assert line.order(discard(first)).done == 1
    assert line.order(replay(second_)).done == 1
    assert joined(line) == ["a"]
    line.take(other)
    assert line.features.producers()["shop"].duplicate == 1
    line.take(LIKED)
    assert reasons(line) == [("a", "conflict", 0)], "the id is the other's now"
    accounted(line)


def test_a_conflict_with_what_was_counted_stays_for_ever(line: OnTheBus) -> None:
    mine, other = feedback("a", T0_US, number=1), feedback("a", T0_US, number=1, value=0.0)
    (_, _, offset) = line.take(arrived(0, 1, T0_US), mine, other)
    for attempt in (1, 2):
        assert line.order(replay(offset)).failed == 1
        assert reasons(line) == [("a", "conflict", attempt)]
    assert joined(line) == ["a"]


def test_two_letters_of_one_event_are_counted_once_when_both_are_replayed(
    line: OnTheBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    line.take(arrived(0, 1, T0_US))
    with monkeypatch.context() as faulty:
        faulty.setattr(Join, "feedback", _fails_on("a"))
        offsets = line.take(feedback("a", T0_US, number=1), feedback("a", T0_US, number=1))
    assert [reason for _, reason, _ in reasons(line)] == ["unfoldable", "unfoldable"]
    outcome = line.order(replay(*offsets))
    assert outcome.done == 2
    assert joined(line) == ["a"]
    assert line.features.producers()["shop"].duplicate == 1
    accounted(line)


def test_letters_that_still_can_not_be_folded_stand_in_no_other_s_way(line: OnTheBus) -> None:
    poisoned = replace(stamp(), trial=SeenTrial(id="tri", block=2**63, arm="candidate"))
    bad = [replace(arrived(n, n, T0_US), stamp=poisoned) for n in (2, 3)]
    offsets = line.take(arrived(1, 1, T0_US), bad[0], LIKED, b"{", bad[1])
    line.declare(WITH_LIKED)
    outcome = line.order(replay(*offsets))
    assert (outcome.done, outcome.failed, outcome.absent) == (1, 3, 1)
    assert [(reason, attempts) for _, reason, attempts in reasons(line)] == [
        ("unfoldable", 1),
        ("undecodable", 1),
        ("unfoldable", 1),
    ]
    assert joined(line) == ["a"]


def test_the_first_event_of_a_day_may_stand_beside_one_that_fails(line: OnTheBus) -> None:
    """The day's table of ids is made in the transaction that the failure undoes."""
    block = SeenTrial(id="tri", block=2**63, arm="candidate")
    unwritable = second(0, T0_US, by=stamp(target="elsewhere", trial=block))
    line.take(
        arrived(1, 1, T0_US),
        feedback("a", T0_US, number=1),
        unwritable,
        feedback("b", T0_US + DAY_US, number=1),
    )
    assert joined(line) == ["a", "b"]
    assert [letter.reason for letter in line.features.dead_letters()] == ["unfoldable"]


def test_an_orphan_that_expired_waits_again_and_finds_its_request(tmp_path: Path) -> None:
    line = OnTheBus(tmp_path, orphan_s=3600, prune_every_s=0.01)
    line.take(feedback("a", T0_US, number=1))
    line.now_us += 2 * 3600 * MICROS
    while not line.features.dead_letters():
        line.take(second(0, line.now_us))
    report = line.features.producers()["shop"]
    assert (report.expired, report.join_rate) == (1, 0.0)
    (letter,) = line.features.dead_letters()
    assert line.order(replay(letter.offset)).done == 1
    assert line.features.orphans_waiting(producer="shop", target="chat") == 1
    line.take(arrived(1, 1, T0_US), second(2, line.now_us))
    assert joined(line) == ["a"]
    report = line.features.producers()["shop"]
    assert (report.expired, report.join_rate, report.waiting) == (0, 1.0, 0)
    accounted(line)
    line.close()


def test_a_letter_older_than_what_is_remembered_of_ids_is_not_replayed(line: OnTheBus) -> None:
    (_, offset) = line.take(arrived(0, 1, T0_US), LIKED)
    line.now_us += 11 * DAY_US
    line.declare(WITH_LIKED)
    assert line.order(replay(offset)).failed == 1
    (letter,) = line.features.dead_letters()
    assert (letter.reason, letter.attempts) == ("undeclared_metric", 1)
    assert "too old" in letter.detail
    assert line.order(discard(offset)).done == 1


def test_what_a_producer_in_quarantine_posts_is_set_aside_and_counted_after_its_release(
    line: OnTheBus,
) -> None:
    line.take(arrived(0, 1, T0_US), feedback("before", T0_US, number=1))
    line.order(quarantine("shop"))
    line.order(quarantine("shop"))
    (aside,) = line.features.quarantined()
    assert (aside.producer, aside.actor, aside.reason) == ("shop", OPERATOR, "it posts nonsense")
    during = [feedback(f"q{n}", T0_US, number=1) for n in range(3)]
    line.take(*during, during[0], feedback("theirs", T0_US, number=1, producer="other"))
    assert joined(line) == ["before", "theirs"]
    assert line.features.dead_letter_counts(producer="shop") == {"quarantined": 3}
    assert line.features.producers()["shop"].quarantined
    line.order(replay(where=LetterSelection(reason="quarantined", producer="shop")))
    assert reasons(line) == [(f"q{n}", "quarantined", 1) for n in range(3)], "it is not over yet"
    assert line.order(quarantine("shop", on=False)).command == "release"
    assert line.features.quarantined() == []
    line.take(feedback("after", T0_US, number=1))
    outcome = line.order(replay(where=LetterSelection(reason="quarantined", producer="shop")))
    assert outcome.done == 3
    assert sorted(joined(line)) == ["after", "before", "q0", "q1", "q2", "theirs"]
    accounted(line)


def test_what_a_replay_comes_to_is_known_when_all_is_folded(line: OnTheBus) -> None:
    """An event of a session waits for the watermark; it was passed long ago, so it is bound at
    once, and found to be too late for its request."""
    hours_us = 2 * 3600 * MICROS
    asked = replace(arrived(0, 1, T0_US), session_id="s")
    late = replace(feedback("late", T0_US + hours_us, name="stars"), session_id="s")
    soon = replace(feedback("soon", T0_US + MICROS, name="stars"), session_id="s")
    line.take(asked)
    line.order(quarantine("shop"))
    offsets = line.take(late, soon, second(1, T0_US + 2 * hours_us))
    line.order(quarantine("shop", on=False))
    line.now_us += 2 * hours_us
    outcome = line.order(replay(*offsets))
    assert (outcome.done, outcome.failed, outcome.absent) == (1, 1, 1)
    assert reasons(line) == [("late", "outside_attribution", 1)]
    assert joined(line) == ["soon"]
    assert line.features.producers()["shop"].replayed == 1
    accounted(line)


def test_an_engine_s_own_records_are_never_set_aside(line: OnTheBus) -> None:
    line.order(quarantine("engine"))
    line.take(arrived(0, 1, T0_US))
    assert line.features.request(request_id(1)) is not None


def test_a_flood_in_quarantine_pushes_no_other_letter_out_and_what_goes_is_counted(
    tmp_path: Path,
) -> None:
    line = OnTheBus(tmp_path, dead_letters=3, quarantined_letters=5)
    line.take(arrived(0, 1, T0_US), LIKED)
    line.order(quarantine("shop"))
    line.take(*(feedback(f"q{n}", T0_US, number=1) for n in range(40)))
    assert line.features.dead_letter_counts() == {"quarantined": 5, "undeclared_metric": 1}
    assert [id_ for id_, _, _ in reasons(line)] == ["a", "q35", "q36", "q37", "q38", "q39"]
    assert line.features.dead_letters_dropped() == 35
    assert line.features.producers()["shop"].dropped == 35
    accounted(line)
    line.close()


def test_letters_are_bounded_in_bytes_too(tmp_path: Path) -> None:
    line = OnTheBus(tmp_path, letter_bytes=1_048_576)
    for _ in range(8):
        line.take(b"{" + b"x" * 300_000)
    kept = line.features.dead_letters()
    assert 1 <= len(kept) <= 3
    assert kept[-1].offset == line.reader.end(), "the oldest go"
    assert len(kept) + line.features.dead_letters_dropped() == 8
    line.close()


def test_outcomes_of_commands_are_kept_to_a_bound(tmp_path: Path) -> None:
    line = OnTheBus(tmp_path, commands=2)
    for _ in range(4):
        line.order(replay(1))
    assert [each.id for each in line.features.commands()] == ["order-3", "order-4"]
    assert line.features.command("order-1") is None
    line.close()


def test_a_command_without_content_and_a_command_s_letter_are_no_commands(line: OnTheBus) -> None:
    empty = Signal(
        id="e", producer="serve", kind="command", name="replay", target="chat", time_us=T0_US
    )
    (offset,) = line.take(empty)
    assert reasons(line) == [("e", "unfoldable", 0)]
    assert line.order(replay(offset)).failed == 1
    assert "given again" in line.features.dead_letters()[0].detail


def test_a_replay_of_the_whole_bus_carries_the_commands_out_again(
    line: OnTheBus, tmp_path: Path
) -> None:
    line.declare(WITH_LIKED)
    line.order(quarantine("shop"))
    (_, *offsets) = line.take(
        arrived(0, 1, T0_US), *(feedback(f"q{n}", T0_US, number=1) for n in range(4)), b"{"
    )
    line.order(discard(offsets[0]))
    line.order(quarantine("shop", on=False))
    line.order(replay(*offsets))
    line.follow(line._follower)
    fresh = folded_afresh(line, tmp_path)
    assert fresh.dead_letters() == line.features.dead_letters()
    assert fresh.commands() == line.features.commands()
    assert fresh.outcomes(request_id(1)) == line.features.outcomes(request_id(1))
    assert fresh.producers() == line.features.producers()
    fresh.close()


def test_a_letter_s_id_says_where_it_stands() -> None:
    assert letter_place("3-17") == (3, 17)
    for wrong in ("17", "0-", "-1-2", "0-99999999999999999999", "0-9223372036854775808", "a-1"):
        with pytest.raises(Rejected):
            letter_place(wrong)


def _fails_on(id_: str) -> object:
    whole = Join.feedback

    def feedback_of(self: Join, event: Event) -> None:
        if event.signal.id == id_:
            raise KeyError(id_)
        whole(self, event)

    return feedback_of

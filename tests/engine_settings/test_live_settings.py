"""Live settings: patches from other threads land at a boundary, whole, or not at all."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future

import pytest

from engine.generation import CLASSES, Load
from engine.live_settings import LiveSettings
from engine.settings_in_force import Instant
from policies.runtime_config import Patch, RuntimeConfig, SettingChange, Stamp
from signals.errors import Conflict, Rejected, Unavailable
from tests.engine_settings.plant import IDENTITY, KNOBS, at

IDLE = Load(waiting={}, running={}, kv_blocks_used=0, kv_blocks_total=1)


class Observed:
    """Remembers what was counted under which stamp."""

    def __init__(self) -> None:
        self.under: dict[int, int] = {}
        self._since = 0

    def arrived(self, intent: str, offered_tokens: int) -> None:
        del intent, offered_tokens
        self._since += 1

    def passed(
        self, before: Stamp, after: Stamp, load: Load, values: Mapping[str, int], now: Instant
    ) -> None:
        del after, load, values, now
        self.under[before.version] = self.under.get(before.version, 0) + self._since
        self._since = 0


def make(observer: Observed | None = None, max_pending: int = 8) -> LiveSettings:
    return LiveSettings(
        IDENTITY,
        KNOBS,
        CLASSES,
        observer or Observed(),
        max_pending=max_pending,
        remembered=16,
        clock=lambda: at(1.0),
    )


def cap(value: int, version: int = 0, change_id: str = "c") -> Patch:
    return Patch(
        change_id=change_id,
        epoch=0,
        expected=f"cafe:{version}",
        settings=(SettingChange(knob="active_cap", value=value),),
    )


def test_a_patch_waits_for_the_boundary_and_governs_the_step_after_it() -> None:
    live = make()
    answer = live.submit(cap(8))
    assert not answer.done()
    assert live.values["active_cap"] == 32
    assert live.boundary(IDLE).active_cap == 8
    assert answer.result(timeout=0).version == 1


def test_of_two_patches_that_expect_the_same_one_wins_and_one_is_stale() -> None:
    live = make()
    first, second = live.submit(cap(8, change_id="a")), live.submit(cap(9, change_id="b"))
    assert live.boundary(IDLE).active_cap == 8
    assert first.result(timeout=0).version == 1
    with pytest.raises(Conflict):
        second.result(timeout=0)


def test_the_same_change_sent_twice_at_once_is_applied_once() -> None:
    live = make()
    first, second = live.submit(cap(8)), live.submit(cap(8))
    live.boundary(IDLE)
    assert first.result(timeout=0) == second.result(timeout=0)
    assert live.stamp.version == 1


def test_a_patch_that_its_sender_gave_up_is_not_applied() -> None:
    live = make()
    assert live.submit(cap(8)).cancel()
    assert live.boundary(IDLE).active_cap == 32


def test_what_can_never_be_applied_is_refused_without_waiting() -> None:
    with pytest.raises(Rejected):
        make().submit(cap(1000))


def test_only_so_many_patches_may_wait() -> None:
    live = make(max_pending=2)
    for number in range(2):
        live.submit(cap(8, change_id=f"c{number}"))
    with pytest.raises(Unavailable):
        live.submit(cap(8, change_id="one-too-many"))


def test_every_arrival_is_counted_under_the_stamp_it_was_given() -> None:
    observer = Observed()
    live = make(observer)
    given: dict[int, int] = {}
    stop = threading.Event()

    def arrive() -> None:
        while not stop.is_set():
            stamp = live.arrive("live", "interactive", prompt_tokens=1, max_tokens=0).stamp
            given[stamp.version] = given.get(stamp.version, 0) + 1

    client = threading.Thread(target=arrive)
    client.start()
    for version in range(300):
        live.submit(cap(version % 64 + 1, version, f"c{version}"))
        live.boundary(IDLE)
    stop.set()
    client.join()
    live.boundary(IDLE)
    assert {version: count for version, count in observer.under.items() if count} == given


def test_many_threads_patch_and_each_version_is_won_once() -> None:
    live, stop = make(max_pending=64), threading.Event()
    won: list[RuntimeConfig] = []

    def engine() -> None:
        while not stop.is_set():
            live.boundary(IDLE)

    def controller(name: str) -> None:
        for number in range(40):
            seen = live.read()
            answer: Future[RuntimeConfig] = live.submit(
                Patch(change_id=f"{name}-{number}", epoch=0, expected=seen.expected)
            )
            try:
                won.append(answer.result(timeout=10))
            except Conflict:
                continue

    controllers = [threading.Thread(target=controller, args=(name,)) for name in "abcd"]
    running = threading.Thread(target=engine)
    running.start()
    for thread in controllers:
        thread.start()
    for thread in controllers:
        thread.join()
    stop.set()
    running.join()
    assert sorted(answer.version for answer in won) == list(range(1, live.stamp.version + 1))

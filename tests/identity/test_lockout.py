"""Lock-out: when it begins, how long it lasts, and what it forgets."""

from __future__ import annotations

import pytest

from controller.identity.lockout import Lockouts, address_of
from controller.identity.settings import LockoutSettings

SECOND = 1_000_000
SETTINGS = LockoutSettings(failures=5, forget_s=50, first_s=10, longest_s=60, addresses=16)


@pytest.fixture
def table() -> Lockouts:
    return Lockouts(SETTINGS)


def fail(table: Lockouts, times: int, at_s: float, address: str = "10.0.0.1") -> list[int | None]:
    return [table.failed(address, int(at_s * SECOND)) for _ in range(times)]


def test_the_fifth_bad_try_locks_and_the_lock_ends(table: Lockouts) -> None:
    assert fail(table, 5, 0) == [None, None, None, None, 10]
    assert table.wait_s("10.0.0.1", 1 * SECOND) == 9
    assert table.wait_s("10.0.0.1", 10 * SECOND) == 0
    assert table.wait_s("10.0.0.2", 1 * SECOND) == 0


def test_tries_during_a_lock_are_no_new_episode(table: Lockouts) -> None:
    fail(table, 5, 0)
    assert fail(table, 50, 5) == [None] * 50
    assert table.wait_s("10.0.0.1", 10 * SECOND) == 0


def test_each_episode_lasts_twice_as_long_up_to_the_bound(table: Lockouts) -> None:
    at_s, lasted = 0.0, []
    for _ in range(5):
        locked_s = fail(table, 5, at_s)[-1]
        assert locked_s is not None
        lasted.append(locked_s)
        at_s += locked_s
    assert lasted == [10, 20, 40, 60, 60]


def test_quiet_time_makes_up_for_tries_and_for_episodes(table: Lockouts) -> None:
    assert fail(table, 4, 0)[-1] is None
    assert fail(table, 4, 50)[-1] is None
    fail(table, 5, 100)
    assert fail(table, 5, 110 + 60)[-1] == 10


def test_slow_tries_never_lock(table: Lockouts) -> None:
    assert {table.failed("10.0.0.1", n * 11 * SECOND) for n in range(200)} == {None}


def test_a_clock_that_goes_back_forgets_nothing(table: Lockouts) -> None:
    fail(table, 4, 100)
    assert fail(table, 1, 50) == [10]


def test_the_table_is_bounded_and_the_oldest_goes(table: Lockouts) -> None:
    fail(table, 5, 0)
    for number in range(16):
        fail(table, 1, 1, f"10.1.0.{number}")
    assert table.wait_s("10.0.0.1", SECOND) == 0


@pytest.mark.parametrize(
    ("peer", "forwarded", "trusted", "found"),
    [
        ("192.0.2.1", [], [], "192.0.2.1"),
        ("127.0.0.1", ["6.6.6.6"], [], "127.0.0.1"),
        ("127.0.0.1", ["6.6.6.6"], ["127.0.0.1/32"], "6.6.6.6"),
        ("127.0.0.1", ["1.1.1.1, 6.6.6.6"], ["127.0.0.1/32"], "6.6.6.6"),
        ("127.0.0.1", ["1.1.1.1", "10.0.0.9"], ["127.0.0.0/8", "10.0.0.0/8"], "1.1.1.1"),
        ("127.0.0.1", ["not an address"], ["127.0.0.1/32"], "127.0.0.1"),
        ("2001:db8::1", [], [], "2001:db8::/64"),
        ("2001:db8::ffff", [], [], "2001:db8::/64"),
        ("::ffff:192.0.2.1", [], [], "192.0.2.1"),
        (None, ["6.6.6.6"], [], "local"),
    ],
)
def test_an_address_is_the_peers_unless_a_trusted_proxy_says_otherwise(
    peer: str | None, forwarded: list[str], trusted: list[str], found: str
) -> None:
    assert address_of(peer, forwarded, trusted) == found

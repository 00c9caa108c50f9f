"""Freeze windows follow the clocks of their zone, over midnight and daylight saving."""

from __future__ import annotations

from datetime import datetime, time
from zoneinfo import ZoneInfo

import pytest

from policies.limits import DAYS, FreezeWindow

BERLIN = ZoneInfo("Europe/Berlin")
WORK = FreezeWindow(
    days=DAYS[:5], begins=time(9), ends=time(11), zone=BERLIN, zone_name="Europe/Berlin"
)
NIGHT = FreezeWindow(days=("fri",), begins=time(22), ends=time(2), zone=BERLIN)


def at(text: str) -> int:
    """µs of a Berlin wall time."""
    return round(datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp()) * 1_000_000


@pytest.mark.parametrize(
    ("window", "now", "until"),
    [
        (WORK, "2026-11-30T08:59:59", None),
        (WORK, "2026-11-30T09:00:00", "2026-11-30T11:00:00"),
        (WORK, "2026-11-30T11:00:00", None),
        (WORK, "2026-11-29T10:00:00", None),
        (WORK, "2026-07-01T10:00:00", "2026-07-01T11:00:00"),
        (NIGHT, "2026-11-27T23:00:00", "2026-11-28T02:00:00"),
        (NIGHT, "2026-11-28T01:59:59", "2026-11-28T02:00:00"),
        (NIGHT, "2026-11-28T23:00:00", None),
        (NIGHT, "2026-11-27T01:00:00", None),
    ],
)
def test_a_window_is_open_from_its_first_minute_to_its_last(
    window: FreezeWindow, now: str, until: str | None
) -> None:
    assert window.until_us(at(now)) == (None if until is None else at(until))


def test_the_same_wall_time_is_another_instant_in_summer() -> None:
    winter, summer = (WORK.until_us(at(f"2026-{day}T10:00:00")) for day in ("01-05", "07-06"))
    assert winter is not None and summer is not None
    assert winter // 1_000_000 % 86_400 == 10 * 3600
    assert summer // 1_000_000 % 86_400 == 9 * 3600


def test_a_window_says_itself_in_words() -> None:
    assert WORK.words() == "mon,tue,wed,thu,fri 09:00-11:00 Europe/Berlin"

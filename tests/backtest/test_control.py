"""The benchmark of the loop's worth: who it is compared with, and how lives are scored."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from benchmarks.control.contenders import live
from benchmarks.control.lives import Errand, Life
from benchmarks.control.plotting import bars
from benchmarks.control.plotting import life as life_figure
from benchmarks.control.scenario import Scenario
from benchmarks.control.scenarios import SCENARIOS
from benchmarks.control.scoring import Minute
from benchmarks.control.summing import compare, timetable, unsafe

LIFE_S = 360.0
SHORT = msgspec.structs.replace(SCENARIOS["c"], life_s=LIFE_S, adapts_s=0.0, scored_from=None)


def lived(contender: str, scenario: str = "c", life_s: float = LIFE_S) -> Life:
    return live(Errand(scenario=scenario, contender=contender, seed=1, life_s=life_s))


def test_a_law_does_better_than_its_two_values_beside_interactive_phases() -> None:
    law = lived("law 16")
    for name in ("static 16", "static 64"):
        assert law.u(SHORT.scored) > 1.05 * lived(name).u(SHORT.scored)
    assert law.attainment("live", SHORT.scored) > 0.8


@pytest.mark.parametrize("name", ["static 16", "law 16"])
def test_where_no_knob_does_anything_every_setting_is_worth_the_same(name: str) -> None:
    stretch = ((0.0, LIFE_S),)
    default = lived("default", "j").u(stretch)
    assert lived(name, "j").u(stretch) == pytest.approx(default)


def test_a_life_is_the_same_however_often_it_is_lived() -> None:
    one, other = lived("aimd"), lived("aimd")
    assert one.minutes == other.minutes
    assert len(one.minutes) == LIFE_S / 60


def test_rivals_move_the_knob_and_the_default_does_not() -> None:
    assert {minute.at for minute in lived("default").minutes} == {64.0}
    assert not any(minute.acted for minute in lived("default").minutes)
    for name in ("random_search", "formula"):
        assert len({minute.at for minute in lived(name).minutes}) > 1


def test_the_loop_is_compared_with_everybody_and_drawn(tmp_path: Path) -> None:
    names = ("default", "static 16", "static 64", "law 16", "random_search", "loop")
    brief = msgspec.structs.replace(SHORT, life_s=120.0)
    lives = [lived(name, life_s=120.0) for name in names]
    compared = compare(brief, lives)
    assert compared.best_static == "static 16" or compared.best_static in ("default", "static 64")
    assert compared.headroom == pytest.approx(
        compared.u[compared.oracle].value / compared.u[compared.best_static].value, abs=1e-3
    )
    assert set(compared.ratios) == {"oracle", "best_static", "default", "random_search"}
    for path in (bars(brief, compared, tmp_path), life_figure(brief, lives, compared, tmp_path)):
        assert path.read_bytes().startswith(b"\x89PNG")


def made(contender: str, us: list[float], *, live_good: int = 30, acted: bool = False) -> Life:
    minutes = tuple(
        Minute(u=u, acted=acted, at=0.0, counts=dict.fromkeys(("live", "code", "batch"), (30, g)))
        for u, g in zip(us, [live_good] * len(us), strict=True)
    )
    plan = Errand(scenario="c", contender=contender, seed=1)
    return Life(plan=plan, minutes=minutes)


def test_an_oracle_changes_its_mind_where_the_world_changes() -> None:
    scenario = msgspec.structs.replace(SHORT, moments=(240.0,))
    lives = [
        made("default", [0.5] * 8),
        made("static 8", [0.9] * 4 + [0.1] * 4),
        made("static 16", [0.1] * 4 + [0.9] * 4),
    ]
    assert timetable(scenario, lives) == ((0.0, "static 8"), (240.0, "static 16"))


def test_a_setting_that_a_guard_forbids_is_no_rival() -> None:
    scenario = msgspec.structs.replace(SHORT, guarded=True)
    lives = [made("default", [0.5] * 8), made("static 64", [0.9] * 8, live_good=20)]
    assert timetable(scenario, lives) == ((0.0, "default"),)
    assert timetable(SHORT, lives) == ((0.0, "static 64"),)


@pytest.mark.parametrize(
    ("good", "acted", "share"), [(20, True, 1.0), (20, False, 0.0), (29, True, 0.0)]
)
def test_a_minute_is_unsafe_when_acting_costs_what_the_default_keeps(
    good: int, acted: bool, share: float
) -> None:
    default = {1: made("default", [0.5] * 8)}
    life = made("loop", [0.5] * 8, live_good=good, acted=acted)
    assert unsafe(SHORT, life, default) == share


def test_what_the_loop_is_not_told_counts_in_its_score() -> None:
    stretch = ((0.0, 240.0),)
    free, cut = (lived(name, "h", 240.0).u(stretch) for name in ("static 512", "static 64"))
    assert cut < free


def test_every_scenario_says_when_it_is_scored() -> None:
    def ends_well(scenario: Scenario) -> bool:
        return all(0 < from_s < to_s <= scenario.life_s for from_s, to_s in scenario.scored)

    assert sorted(SCENARIOS) == ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]
    assert all(scenario.scored and ends_well(scenario) for scenario in SCENARIOS.values())

"""The benchmark of the loop's worth: a law beats every static value where batching hurts others."""

from __future__ import annotations

import msgspec
import pytest

from benchmarks.control.contenders import fixed, laws, statics
from benchmarks.control.scenarios import SCENARIOS, Scenario


def short(name: str) -> Scenario:
    return msgspec.structs.replace(SCENARIOS[name], life_s=500.0, adapts_s=20.0)


def test_a_law_does_better_than_its_two_values_beside_interactive_phases() -> None:
    scenario = short("c")
    law = fixed(scenario, "law 16", laws()["law 16"], 1)
    for name in ("static 16", "static 64"):
        assert law.u > 1.1 * fixed(scenario, name, statics()[name], 1).u
    assert law.live > 0.8


@pytest.mark.parametrize("name", ["static 16", "law 16"])
def test_where_no_knob_does_anything_every_setting_is_worth_the_same(name: str) -> None:
    scenario = short("j")
    default = fixed(scenario, "default", None, 1)
    assert fixed(scenario, name, {**statics(), **laws()}[name], 1).u == pytest.approx(default.u)

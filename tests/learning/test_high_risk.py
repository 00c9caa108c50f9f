"""What U does not show the price of is not decided by U."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from benchmarks.control.processes import TWO_KNOBS
from benchmarks.control.scenario import declared
from benchmarks.control.scenarios import SCENARIOS
from controller.backtest.backtest import Backtest
from controller.config.targets import TargetSettings
from controller.learner.settings import LearnerSettings
from controller.store.address import address_of
from controller.store.sql import open_store


@pytest.mark.parametrize("mode", ["approve", "auto"])
def test_a_knob_of_high_risk_is_never_the_learners_whatever_its_mode(
    tmp_path: Path, mode: str
) -> None:
    scenario = SCENARIOS["h"]
    body = TWO_KNOBS.model_dump(by_alias=True, exclude_unset=True)
    body["knobs"] = {
        "active_cap": {"mode": "observe", "ladder": [8, 16, 32]},
        "answer_tokens": {"mode": mode, "ladder": [32, 64, 128, 256, 512]},
    }
    eager = LearnerSettings(decide_every_s=10.0, least_promise=0.0, least_gain=0.0)
    said = structs.replace(declared(TargetSettings.model_validate(body)), learner=eager)
    backtest = Backtest(said, scenario.fleet(1), tmp_path, seed=1, tick_s=1.0)
    try:
        assert next(s for s in scenario.replica.knobs() if s.name == "answer_tokens").risk == "high"
        backtest.run(25)
        assert not [one for one in backtest.policies() if one.knob == "answer_tokens"]
    finally:
        backtest.close()
    store = open_store(address_of(tmp_path / "store.db"))
    with store.read() as tx:
        found = [one for one in tx.decisions(target="chat") if one.source.startswith("learner")]
    store.close()
    assert {one.chosen.partition("=")[0] for one in found} == {"active_cap"}

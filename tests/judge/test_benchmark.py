"""``make bench-judge`` asks the product's judge: it finds what is there, and repeats itself."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.judging.__main__ import AIMS, main
from benchmarks.judging.bounds import clustered_upper
from benchmarks.judging.errands import Errand, live
from benchmarks.judging.paths import Change, one_engine, two_replicas
from benchmarks.judging.plans import LAW, LAW_WORLD, WORLDS, planned, planned_law
from benchmarks.judging.skewed import COUNTER_EXAMPLES, tell
from benchmarks.judging.trying import Looks, judged, try_out
from benchmarks.queue_model import BATCH, LIVE, QueueModel, World
from controller.judge.verdict import rule_on
from controller.trials import Trial, TrialPlan, Unit, arms
from signals.events import MICROS

EASY, BUSY = WORLDS[0], WORLDS[2]
CALM = World(name="calm", chats_per_s=6.0, load_sd=0.15, flood=0)
FLOODED = World(name="flooded", chats_per_s=4.0, load_sd=0.15)


def test_steps_that_take_a_fifth_less_are_found_and_a_tenth_more_is_harm() -> None:
    faster, slower = (
        try_out(two_replicas(CALM, 5, Change(factor=factor), None), planned("crossover", 5))
        for factor in (0.8, 1.1)
    )
    assert (faster.verdict, slower.verdict) == ("IMPROVED", "HARMED")
    assert faster.units >= 7


def test_a_law_that_takes_more_jobs_while_no_chats_come_is_kept() -> None:
    path = two_replicas(LAW_WORLD, 3, Change(law=LAW), None)
    found = path.unit(0.0, planned_law(3), ("candidate", "baseline"), 0)
    assert found.d[f"tokens_per_s:{BATCH}"] > 50
    assert found.d["U"] > 0


def test_the_same_errand_tells_the_same_story() -> None:
    errand = Errand(world=EASY.name, design="crossover", seed=3, coins=1, factor=0.8)
    first, again = live(errand), live(errand)
    assert first == again
    assert first.outcomes[0].verdict == "IMPROVED"
    assert 0.9 < first.attainment <= 1.0


def test_redrawn_coins_flip_the_sign_of_what_a_remembered_path_showed() -> None:
    path = one_engine(EASY, 2, Change(), None)
    plan = planned("switchback", 1)
    one = path.unit(0.0, plan, ("baseline", "candidate"), 0)
    other = path.unit(0.0, plan, ("candidate", "baseline"), 0)
    assert one.d == {metric: -d for metric, d in other.d.items()}
    assert (
        one.d == one_engine(EASY, 2, Change(), None).unit(0.0, plan, ("baseline", "candidate"), 0).d
    )


def test_where_the_judge_is_not_asked_it_would_have_said_go_on() -> None:
    """Every unit of some trials is ruled on; whatever ends one was worth a look."""
    rng = np.random.default_rng(7)
    plan = planned("crossover", 7)
    for level in (-0.2, 0.0, 0.2):
        units, looks = list[Unit](), Looks(plan)
        for index in range(plan.max_units):
            d = {plan.primary: float(rng.normal(level, 0.1))}
            d |= {guard.metric: float(rng.normal(0.0, 0.02)) for guard in plan.guards}
            units.append(Unit(index=index, blocks=(), d=d, judged=True))
            if not looks.worth_one(units[-1]):
                ruling = rule_on(Trial(plan=plan, began_us=0, units=tuple(units)))
                assert ruling.verdict is None, f"seed 7, level {level}, unit {index}"


def test_the_third_latency_trip_ends_a_trial_undecided() -> None:
    plan = planned("crossover", 1)

    def tripping(at_s: float, in_force: TrialPlan, index: int) -> Unit:
        return Unit(index=index, blocks=(), d={plan.primary: 0.0}, judged=True, tripped=True)

    outcome = judged(plan, tripping)
    assert (outcome.verdict, outcome.cause, outcome.units) == ("INCONCLUSIVE", "latency_trips", 3)


def test_a_candidate_that_stalls_trips_while_it_runs() -> None:
    plan = planned("crossover", 4)
    path = two_replicas(BUSY, 4, Change(factor=2.0), None)
    assert path.unit(0.0, plan, arms(plan.seed, 0), 0).tripped


def test_published_counter_examples_are_harm_and_their_samples_pass_nowhere() -> None:
    for stream in COUNTER_EXAMPLES:
        told = tell(stream, 5, seed=2)
        assert (told.improved, told.harmed, told.samples_passed) == (0.0, 1.0, 0.0), told


def test_the_load_does_not_depend_on_what_the_engine_does() -> None:
    slow, fast = QueueModel(BUSY, 4), QueueModel(BUSY, 4)
    slow.run(60 * MICROS, factor=1.5)
    fast.run(60 * MICROS, factor=0.5)
    chats = [
        [r.arrival_us for r in model.arrived(0, 50 * MICROS) if r.intent == LIVE]
        for model in (slow, fast)
    ]
    assert chats[0] == chats[1]
    assert len(chats[0]) > 100


def test_the_model_keeps_its_cap_and_gives_every_running_request_a_token_a_step() -> None:
    model = QueueModel(FLOODED, 1)
    model.run(30 * MICROS)
    jobs = [r for r in model.requests if r.intent == BATCH]
    step_us = (FLOODED.base_ms + FLOODED.per_sequence_ms * FLOODED.cap) * 1000
    took = [
        (r.finished_us - r.first_us) / (r.tokens - 1) for r in jobs if r.first_us and r.finished_us
    ]
    assert float(np.median(took)) == pytest.approx(step_us, rel=0.001)
    tokens = sum(sum(second.output_tokens.values()) for second in model.seconds)
    assert tokens == pytest.approx(FLOODED.cap / step_us * 1e6 * 30, rel=0.05)


def test_the_campaign_tells_its_figures_and_goes_on_from_what_it_has_lived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TRIMTAB_DATA", raising=False)
    progress = str(tmp_path / "lived.jsonl")
    small = ["judging", "--paths", "0", "--power", "1", "--streams", "1", "--workers", "1"]
    said = []
    for more in ([], ["--report"]):
        monkeypatch.setattr("sys.argv", [*small, "--progress", progress, *more])
        assert main() == 0
        said.append(capsys.readouterr().out)
    assert "0 paths were lived before, 12 are to be" in said[0]
    assert "12 paths were lived before, 0 are to be" in said[1]
    first, again = (json.loads(text.splitlines()[-1]) for text in said)
    assert {key: again[key] for key in AIMS} == {key: first[key] for key in AIMS}
    assert first["crossover_10_median_s"] >= 7 * 45
    assert first["crossover_10_careful_median_s"] >= 90 * 45
    assert first["false_harmed_upper"] is None, "no path without an effect was lived"


def test_a_bound_grows_when_the_same_events_lie_on_fewer_paths() -> None:
    assert clustered_upper([0] * 12, [25] * 12) == pytest.approx(1 - 0.05 ** (1 / 300))
    spread, heaped = [1] * 4 + [0] * 8, [4] + [0] * 11
    assert clustered_upper(spread, [25] * 12) < clustered_upper(heaped, [25] * 12)
    assert clustered_upper(spread, [25] * 12) > 4 / 300

"""The journey's parts that need no running system: configuration, rhythm, memory, the law's cap."""

from __future__ import annotations

from itertools import islice, pairwise
from pathlib import Path
from random import Random

import pytest

from controller.config.load import load
from examples.journey.checking import law_fits, predicted_tpot_ms, trial_seed
from examples.journey.memory import slope
from examples.journey.options import parse
from examples.journey.phases import arrivals
from examples.journey.sample import (
    BASELINE_CAP,
    FULL,
    KNOB,
    LADDER,
    SHORT,
    TARGET,
    Pace,
    configuration,
    free_ports,
    pace_of,
)

EVIDENCE = {
    "base_ms": 12.0,
    "per_sequence_ms": 1.0,
    "per_prompt_token_ms": 0.8,
    "prefill_per_decode": 1.25,
}
"""12 + 2 ms a sequence."""


@pytest.mark.parametrize("words", [[], ["--short"], ["--tpot-ms", "25", "--alpha", "0.1"]])
def test_the_sample_configuration_is_sound_and_says_what_is_sample(
    words: list[str], tmp_path: Path
) -> None:
    options = parse(words)
    text = configuration(options, pace_of(options), free_ports(), tmp_path)
    path = tmp_path / "trimtab.yaml"
    path.write_text(text, encoding="utf-8")

    settings = load(path, {})

    target = settings.targets[TARGET]
    assert target.baseline[KNOB] == BASELINE_CAP
    assert target.knobs.of(KNOB).ladder == LADDER
    assert target.knobs.mode(KNOB) == "observe"
    assert target.intents["live"].slo.tpot_ms == options.tpot_ms
    assert (settings.trial.alpha, settings.trial.seed) == (options.alpha, options.seed)
    assert text.count("SAMPLE") > 8


@pytest.mark.parametrize("pace", [FULL, SHORT])
@pytest.mark.parametrize("seed", range(5))
def test_chats_come_in_a_steady_rhythm_without_gaps_inside_a_phase(pace: Pace, seed: int) -> None:
    times = list(
        islice(
            arrivals(Random(seed), on_s=pace.on_s, off_s=pace.off_s, per_s=pace.chats_per_s),
            int(6 * pace.on_s * pace.chats_per_s),
        )
    )
    gaps = [b - a for a, b in pairwise(times)]
    inside = [gap for gap in gaps if gap < pace.off_s / 2]
    assert max(inside) < 1.0, f"seed {seed}"
    rises = [times[0], *(b for a, b in pairwise(times) if b - a > pace.off_s / 2)]
    cycles = [b - a for a, b in pairwise(rises)]
    assert all(abs(cycle - pace.cycle_s) < 0.5 for cycle in cycles), f"seed {seed}"


def test_a_block_holds_one_cycle_as_measured_and_the_batch_deadline() -> None:
    for pace in (FULL, SHORT):
        assert pace.washout_s + 0.85 * pace.cycle_s < pace.block_s < pace.washout_s + pace.cycle_s
        assert pace.block_s >= pace.washout_s + 2 * pace.batch_e2e_ms / 1000
        assert pace.flood > max(LADDER)


def test_the_slope_of_a_line_is_found_through_noise() -> None:
    rng = Random(2)
    points = [(float(x), 100 + 0.5 * x + rng.gauss(0, 0.1)) for x in range(200)]
    assert slope(points) == pytest.approx(0.5, abs=0.01)
    assert slope(points[:1]) == 0.0


def test_the_predicted_tpot_is_the_curve_s() -> None:
    assert predicted_tpot_ms(EVIDENCE, 8) == pytest.approx(28.0)


@pytest.mark.parametrize(
    ("cap", "limit", "fits"),
    [(8, 50, True), (16, 50, False), (4, 50, False), (2, 25, False), (1, 25, True), (1, 5, True)],
)
def test_a_law_s_cap_meets_the_limit_and_the_next_one_would_not(
    cap: int, limit: int, fits: bool
) -> None:
    law = {"evidence": EVIDENCE, "setting": {"law": {"steps": [{"value": cap}]}}}
    assert (law_fits(law, limit) == []) is fits


def test_another_declared_seed_is_another_seed_of_the_trial() -> None:
    assert trial_seed(1, "active_cap 2 → 4") != trial_seed(2, "active_cap 2 → 4")
    assert 0 <= trial_seed(1, "x") < 2**32

"""Readers of traces: the rows' values, a seed's jitter, and refusals that say which row and why."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from itertools import pairwise

import numpy as np
import pytest

from engine.simulated.arrivals import azure, mooncake, servegen
from engine.simulated.arrivals.kinds import BATCH, LIVE, always, by_output_tokens, by_share
from engine.simulated.offered import Offered
from signals.errors import Rejected

AZURE = [
    "TIMESTAMP,ContextTokens,GeneratedTokens\n",
    "2023-11-16 18:15:46.6805900,374,44\n",
    "2023-11-16 18:15:50.9951690,396,109\n",
    "2023-11-16 18:15:51.2225670,879,255\n",
]
RATES = [
    "0,10.0,1.0,Gamma,1.0,0.1\n",
    "600,0.0,0.0,,,\n",
    "1200,20.0,4.0,Weibull,0.4,0.006\n",
]
LENGTHS = json.dumps(
    {
        "0": {"input_tokens": "{34: 0.5, 40: 0.5}", "output_tokens": "{0: 0.1, 7: 0.9}"},
        "1000": {"input_tokens": "{99: 1.0}", "output_tokens": "{5: 1.0}"},
    }
)


def mooncake_line(at_ms: int, prompt: int, ids: object) -> str:
    row = {"timestamp": at_ms, "input_length": prompt, "output_length": 3, "hash_ids": ids}
    return json.dumps(row) + "\n"


def rising(arrivals: Iterable[Offered]) -> bool:
    moments = [offered.arrival_s for offered in arrivals]
    return moments == sorted(moments)


def test_azure_rows_keep_their_gaps_and_lengths_and_get_the_callers_kinds() -> None:
    found = list(azure.conversations(AZURE, by_output_tokens(above=200)))
    assert [round(offered.arrival_s, 6) for offered in found] == [0.0, 4.314579, 4.541977]
    assert [(o.prompt_tokens, o.output_tokens) for o in found] == [
        (374, 44),
        (396, 109),
        (879, 255),
    ]
    assert [(o.intent, o.class_) for o in found] == [
        ("live", "interactive"),
        ("live", "interactive"),
        ("batch", "batch"),
    ]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("2023-11-16 18:15:52,many,44", "line 3: ContextTokens 'many': a whole number of 1"),
        ("2023-11-16 18:15:52,374,0", "line 3: GeneratedTokens '0': a whole number of 1 or more"),
        ("yesterday,374,44", "line 3: TIMESTAMP 'yesterday'"),
        ("2023-11-16 18:15:52+00:00,374,44", "line 3: TIMESTAMP"),
        ("2023-11-16 18:15:40,374,44", "line 3: TIMESTAMP '2023-11-16 18:15:40': not before"),
        ("2023-11-16 18:15:52,374", "line 3: row '2023-11-16 18:15:52,374': 3 columns"),
    ],
)
def test_an_azure_row_that_cannot_be_read_is_refused_by_line_field_and_value(
    row: str, told: str
) -> None:
    with pytest.raises(Rejected, match=told.replace("+", r"\+")):
        list(azure.conversations([*AZURE[:2], row], always(LIVE)))


def test_a_table_with_another_header_is_no_azure_trace() -> None:
    with pytest.raises(Rejected, match="line 1: header"):
        list(azure.conversations(["a,b,c"], always(LIVE)))


def test_a_ticks_requests_are_spread_over_the_tick_in_their_order_by_the_seed() -> None:
    rows = [mooncake_line(tick, 600, [n]) for tick in (0, 3000, 5999) for n in range(20)]
    seed = 3
    once, again, other = (
        list(mooncake.conversations(rows, always(BATCH), np.random.default_rng(s)))
        for s in (seed, seed, seed + 1)
    )
    assert once == again != other
    assert rising(once)
    assert [o.prefix for o in once] == [(n,) for _ in range(3) for n in range(20)]
    for tick, (from_s, to_s) in enumerate([(0.0, 3.0), (3.0, 5.999), (5.999, 8.999)]):
        moments = [o.arrival_s for o in once[20 * tick : 20 * tick + 20]]
        assert from_s <= moments[0] < moments[-1] < to_s
        assert moments[-1] - moments[0] > 1.5, f"seed {seed}: bunched"


def test_a_prompts_last_block_is_no_prefix_when_it_is_cut_short() -> None:
    rows = [mooncake_line(0, 1024, [1, 2]), mooncake_line(0, 1025, [1, 2, 3])]
    found = mooncake.conversations(rows, always(LIVE), np.random.default_rng(1))
    assert [(o.prefix, o.prefix_tokens) for o in found] == [((1, 2), 512), ((1, 2), 512)]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "line 2: line '{': JSON"),
        ("[]", "line 2: line '\\[\\]': a JSON object"),
        ('{"timestamp": "soon"}', "line 2: timestamp 'soon': a whole number of 0 or more"),
        (mooncake_line(0, 600, [1, 2]), "line 2: timestamp 0: at least 3000"),
        (mooncake_line(3000, 0, []), "line 2: input_length 0: a whole number of 1 or more"),
        (mooncake_line(3000, 600, ["a"]), "line 2: hash_ids"),
        (mooncake_line(3000, 2000, [1]), "line 2: hash_ids '1 ids': one for every 512 tokens"),
    ],
)
def test_a_mooncake_line_that_cannot_be_read_is_refused_by_line_field_and_value(
    line: str, told: str
) -> None:
    rows = [mooncake_line(3000, 600, [1, 2]), line]
    with pytest.raises(Rejected, match=told):
        list(mooncake.conversations(rows, always(LIVE), np.random.default_rng(1)))


def servegen_workload(seed: int, **window: float) -> list[Offered]:
    rates, spans = servegen.read_rates(RATES), servegen.read_lengths(LENGTHS)
    rng = np.random.default_rng(seed)
    return list(servegen.workload(rates, spans, always(LIVE), rng, **window))


def test_servegen_counts_follow_the_published_rates_however_bursty() -> None:
    seeds = range(16)
    runs = [servegen_workload(seed) for seed in seeds]
    assert all(rising(run) for run in runs)
    for from_s, per_s in ((0, 10.0), (600, 0.0), (1200, 20.0)):
        counts = [sum(from_s <= o.arrival_s < from_s + 600 for o in run) for run in runs]
        assert np.mean(counts) == pytest.approx(600 * per_s, rel=0.05), f"seeds {seeds}"


def test_servegen_gaps_have_the_published_burstiness() -> None:
    seed = 5
    run = servegen_workload(seed, rate_scale=20.0)
    moments = {
        from_s: [o.arrival_s for o in run if from_s <= o.arrival_s < from_s + 600]
        for from_s in (0, 1200)
    }
    cvs = {
        from_s: np.std(gaps := [b - a for a, b in pairwise(found)]) / np.mean(gaps)
        for from_s, found in moments.items()
    }
    # Gamma of shape 1: 1; Weibull of shape .4: √(Γ(6) / Γ(3.5)² − 1) = 3.14.
    assert cvs[0] == pytest.approx(1.0, rel=0.05), f"seed {seed}"
    assert cvs[1200] == pytest.approx(3.14, rel=0.1), f"seed {seed}"


def test_servegen_lengths_change_with_the_span_and_none_is_zero() -> None:
    run = servegen_workload(2)
    early = [o for o in run if o.arrival_s < 600]
    late = [o for o in run if o.arrival_s >= 1200]
    assert {o.prompt_tokens for o in early} == {34, 40}
    assert {o.output_tokens for o in early} == {1, 7}
    assert {(o.prompt_tokens, o.output_tokens) for o in late} == {(99, 5)}


def test_any_window_of_servegen_begins_at_its_second_zero_and_scales() -> None:
    seed = 9
    run = servegen_workload(seed, from_s=1200, rate_scale=0.5)
    assert 0 <= run[0].arrival_s < run[-1].arrival_s < 600
    assert len(run) == pytest.approx(6000, rel=0.15), f"seed {seed}"


@pytest.mark.parametrize(
    ("read", "told"),
    [
        (lambda: servegen.read_rates(["0,10,1,Pareto,1,1"]), "line 1: family 'Pareto': Gamma or"),
        (lambda: servegen.read_rates(["0,x,1,Gamma,1,1"]), "line 1: per_s 'x': a finite number"),
        (lambda: servegen.read_rates(["0,nan,1,Gamma,1,1"]), "line 1: per_s 'nan'"),
        (lambda: servegen.read_rates(["0,1,1,Gamma,0,1"]), "line 1: shape '0': above 0"),
        (lambda: servegen.read_rates(RATES[:1] * 2), "line 2: from_s '0': after the row above"),
        (lambda: servegen.read_rates(["0,1"]), "line 1: row '0,1': 6 columns"),
        (lambda: servegen.read_lengths("{"), "line 1: document"),
        (lambda: servegen.read_lengths('{"0": {"input_tokens": "x("}}'), "window 0: input_tokens"),
        (lambda: servegen.read_lengths("{}"), "no window has requests"),
        (lambda: servegen_workload(1, from_s=9000), "from_s 9000: no window begins"),
    ],
)
def test_what_servegen_did_not_write_is_refused_with_its_place(
    read: Callable[[], object], told: str
) -> None:
    with pytest.raises(Rejected, match=told):
        read()


def test_a_share_is_kept_and_one_outside_zero_to_one_is_refused() -> None:
    seed = 4
    assign = by_share(0.7, np.random.default_rng(seed))
    live = sum(assign(1, 1) == LIVE for _ in range(4000)) / 4000
    assert live == pytest.approx(0.7, abs=0.03), f"seed {seed}"
    with pytest.raises(Rejected, match=r"share 1\.5"):
        by_share(1.5, np.random.default_rng(seed))

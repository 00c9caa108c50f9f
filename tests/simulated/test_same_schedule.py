"""The arithmetic takes the very steps that the embedded engine's scheduler takes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from msgspec.structs import replace

from engine.generation import Limits
from policies.runtime_config import SettingChange
from tests.simulated import reference
from tests.simulated.loads import SECOND_US, SPEC, TIMES, cap, change, fleet, mixed, until

FOR_S = 4
ROWS_ALIKE = replace(TIMES, per_prefill_us=100, per_decode_us=100)
"""A prompt's last token, when the budget left it alone, is a decoding row to the one and a
prefilling row to the other."""
CASES = {
    "roomy": (8192, [(0, 64, 512)], "drain"),
    "small cap": (8192, [(0, 4, 512)], "drain"),
    "little memory": (100, [(0, 64, 512)], "drain"),
    "small budget": (8192, [(0, 64, 64)], "drain"),
    "budget below cap": (8192, [(0, 64, 32)], "drain"),
    "all of it, little memory": (100, [(0, 64, 32)], "drain"),
    "cap lowered and raised": (8192, [(0, 32, 256), (2, 3, 256), (3, 32, 256)], "drain"),
    "preempted for the cap": (400, [(0, 32, 256), (2, 3, 256), (3, 32, 256)], "preempt"),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", [1])
def test_every_request_gets_its_tokens_when_the_embedded_scheduler_gives_them(
    name: str, seed: int
) -> None:
    kv_blocks, plan, shrink = CASES[name]
    rate = 4.0 if name == "roomy" else 12.0
    rate = 30.0 if "memory" in name else rate
    prompt = 20 if "memory" in name else 80
    offered = [
        replace(one, prompt_tokens=one.prompt_tokens + 1)  # a prompt of one token decodes at once
        for one in until(mixed(seed, per_s=rate, prompt=prompt, output=80), FOR_S)
        if one.prompt_tokens + one.output_tokens < 1000
    ]
    times = TIMES if name in ("roomy", "small cap") else ROWS_ALIKE
    spec = replace(SPEC, kv_blocks=kv_blocks, step_times=times)
    engine = fleet(iter(offered), spec)
    limits = {}
    for (since_s, active_cap, budget), (until_s, _, _) in pairwise([*plan, (2 * FOR_S, 0, 0)]):
        engine.run(since_s * SECOND_US)
        replica = engine.replica("r0")
        change(
            replica,
            cap(active_cap, shrink=shrink),
            SettingChange(knob="step_token_budget", value=budget),
        )
        limits[round(replica.at_us)] = Limits(
            active_cap=active_cap,
            step_token_budget=budget,
            shrink="preempt" if shrink == "preempt" else "drain",
        )
        engine.run(until_s * SECOND_US)
    lives = reference.live(
        offered, times, kv_blocks=kv_blocks, limits=limits, until_us=2 * FOR_S * SECOND_US
    )
    rows = engine.requests(-1, 2 * FOR_S * SECOND_US)
    assert len(rows) == len(lives) > 0
    simulated = [(row.ttft_us, row.finished_us, row.preemptions) for row in rows]
    expected = [
        (
            None
            if one.finished_us is None or one.first_us is None
            else round(one.first_us) - row.arrival_us,
            None if one.finished_us is None else round(one.finished_us),
            one.sequence.preemptions if one.finished_us is not None else 0,
        )
        for one, row in zip(lives, rows, strict=True)
    ]
    assert simulated == expected, f"seed {seed}"
    if "memory" in name or shrink == "preempt":
        assert any(row.preemptions for row in rows), "the case put nobody back"

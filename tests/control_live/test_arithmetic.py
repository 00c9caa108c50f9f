"""What ``make bench-control-live`` computes from what an engine showed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from benchmarks.control_live.__main__ import lived, options, tell
from benchmarks.control_live.arms import ARMS, LARGE, SMALL, turns
from benchmarks.control_live.load import CHAT_TOKENS, chats
from benchmarks.control_live.scoring import Cycle, Shown, paired, rate, score
from benchmarks.control_live.system import CONFIGURATION, KNOB, TARGET
from benchmarks.figures import Figures
from controller.config.load import load
from signals.errors import Unavailable
from signals.events import MICROS, StepMoments
from signals.features.model import RequestRow, SecondRow


def request(intent: str, at_s: float, *, good: bool) -> RequestRow:
    """One that took half a second."""
    return RequestRow(
        request_id=f"chat.{intent}.{at_s}",
        target=TARGET,
        replica="chat-0",
        incarnation="a",
        version=1,
        digest="d",
        policies=(),
        trial="",
        block=0,
        arm=None,
        intent=intent,
        class_="interactive" if intent == "live" else "batch",
        arrival_us=round(at_s * MICROS),
        deadline_us=None,
        finished_us=round((at_s + 0.5) * MICROS),
        status="ok",
        prompt_tokens=20,
        output_tokens=16,
        max_tokens=24,
        queue_us=0,
        ttft_us=100_000,
        tpot_us=26_000,
        good=good,
        preemptions=0,
        error=None,
        external_id=None,
        session_id=None,
    )


def second(ends_s: int, tokens: int, *, waiting: int) -> SecondRow:
    """A second of batch work."""
    return SecondRow(
        target=TARGET,
        replica="chat-0",
        incarnation="a",
        from_us=(ends_s - 1) * MICROS,
        to_us=ends_s * MICROS,
        digest="d",
        trial="",
        block=0,
        arm=None,
        output_tokens={"batch": tokens},
        arrivals={},
        offered_tokens={},
        waiting={"batch": waiting},
        steps=StepMoments(),
        knobs={},
    )


def shown(arm: str, u: float, acts: list[str] | None = None) -> Shown:
    return Shown(arm=arm, u=u, batch_tokens_per_s=200 * u, chat_attainment=u, acts=acts or [])


def cycle(index: int, us: dict[str, float], *, seed: int = 1) -> Cycle:
    return Cycle(
        index=index,
        seed=seed,
        arm_s=160.0,
        reference_tokens_per_s=300.0,
        shown=[shown(arm, u) for arm, u in us.items()],
        load=[0.1, 0.1, 0.1],
    )


US = ({"static small": 0.6, "static large": 0.5, "rule": 0.7, "law": 0.9},
      {"static small": 0.6, "static large": 0.7, "rule": 0.6, "law": 0.8})  # fmt: skip


def test_arms_take_turns_and_turn_round_so_that_no_drift_favours_one() -> None:
    places = {arm.name: 0 for arm in ARMS}
    for index in (0, 1):
        for place, arm in enumerate(turns(index)):
            places[arm.name] += place
    assert set(places.values()) == {3}


def test_every_arm_of_a_cycle_meets_the_same_chats_and_no_other_cycle_does() -> None:
    phase = chats(1000, on_s=80.0)
    assert phase == chats(1000, on_s=80.0)
    assert phase != chats(1001, on_s=80.0)
    assert len(phase) == 160
    assert 0 <= phase[0].at_s < 1 and phase[-1].at_s < 81
    assert {chat.tokens for chat in phase} == set(range(CHAT_TOKENS[0], CHAT_TOKENS[1] + 1))


def test_u_is_half_the_rate_and_half_what_intents_met_over_whole_phases_after_the_washout() -> None:
    rows = [request("live", 30 + at, good=at < 4) for at in range(8)]
    rows += [request("live", 2.0, good=False)]  # in the washout
    rows += [request("batch", 15.0 + at, good=True) for at in range(4)]
    rows += [request("batch", 60.0, good=False)]  # too late to meet its 60 s within the arm
    ticks = [second(at, 150, waiting=3) for at in range(11, 111)]
    ticks += [second(at, 900, waiting=3) for at in range(1, 11)]
    found = score(
        "law", rows, ticks, began_us=0, washout_s=10.0, arm_s=100.0, reference=300.0, acts=["4"]
    )
    assert found.batch_tokens_per_s == 150
    assert found.chat_attainment == 0.5
    assert found.u == pytest.approx(0.5 * 0.5 + 0.25 * (0.5 / 0.97) + 0.25)
    assert found.acts == ["4"]


def test_an_arm_without_chats_has_no_figures_rather_than_good_ones() -> None:
    rows = [request("batch", 15.0, good=True)]
    with pytest.raises(Unavailable, match="law has no figures"):
        score("law", rows, [second(20, 100, waiting=1)], began_us=0, washout_s=10.0, arm_s=100.0,
              reference=300.0)  # fmt: skip


def test_the_reference_counts_seconds_in_which_jobs_waited() -> None:
    assert rate([second(1, 100, waiting=2), second(2, 900, waiting=0)]) == 100
    with pytest.raises(Unavailable, match="no job waited"):
        rate([second(1, 100, waiting=0)])


def test_differences_are_paired_by_cycle_and_a_single_cycle_has_no_interval() -> None:
    found = paired([0.9, 0.8], [0.7, 0.6])
    assert [found.mean, found.low, found.high] == pytest.approx([0.2, 0.2, 0.2])
    assert paired([0.9], [0.7]).low is None


def test_the_last_line_compares_the_law_with_every_rival_and_says_that_it_was_imported() -> None:
    told = Figures({"law_u": "-", "law_vs_best_static": "-", "law_vs_rule": "-",
                    "law_batch_tokens_per_s": "-", "law_chat_attainment": "-"})  # fmt: skip
    tell([cycle(index, us) for index, us in enumerate(US)], told)
    assert told.keys["law_u"] == 0.85
    assert told.keys["law_vs_best_static"] == pytest.approx(0.85 / 0.6, abs=1e-3)
    assert told.keys["law_vs_rule"] == pytest.approx(0.85 / 0.65, abs=1e-3)
    assert told.more["law_minus"]["rule"]["u"]["mean"] == pytest.approx(0.2)
    assert "imported as kept" in told.more["law"] and "imported as kept" in ARMS[-1].words


def test_a_run_goes_on_with_whole_cycles_of_its_own_code_seed_and_length(tmp_path: Path) -> None:
    given, progress = options(["--cycles", "3"]), tmp_path / "lived"
    lines = [
        {"code": "mine", "cycle": cycle(0, US[0])},
        {"code": "other", "cycle": cycle(1, US[0])},
        {"code": "mine", "cycle": cycle(2, US[0], seed=2)},
        {"code": "mine", "cycle": cycle(7, US[0])},
    ]
    text = b"\n".join(msgspec.json.encode(line) for line in lines)
    progress.write_bytes(text + b'\n{"code": "mine", "cy')
    assert lived(progress, given, "mine") == {0: cycle(0, US[0])}
    assert lived(tmp_path / "nothing", given, "mine") == {}


def test_the_configuration_lets_the_emergency_rule_act_and_nothing_be_tried(tmp_path: Path) -> None:
    path = tmp_path / "trimtab.yaml"
    ports = {"chat": 1, "control": 2, "signals": 3, "api": 4}
    places = {"state_dir": tmp_path, "target": TARGET, "knob": KNOB, "small": SMALL}
    path.write_text(CONFIGURATION.format(**places, large=LARGE, **ports), encoding="utf-8")
    settings = load(path, {})
    target = settings.targets[TARGET]
    assert target.knobs.mode(KNOB) == "auto" and target.rules[0].emergency
    (window,) = (one.window() for one in settings.guardrails.freeze)
    assert all(window.until_us(hour * 3600 * MICROS) for hour in range(7 * 24))

"""What the journey derives again agrees with the judge, and notices whatever was altered."""

from __future__ import annotations

import json
from random import Random

import msgspec
import pytest

from controller.judge.eprocess import e_value, guard_e_value
from controller.judge.verdict import rule_on
from controller.trials import arms
from examples.journey import arithmetic
from examples.journey.audit_trail import NotAnAuditError, read_export, trials_in
from examples.journey.rederive import rederive
from tests.journey.told import PLAN, Told, tell
from tests.judge.builders import plan, trial


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("gain", [0.2, 1.0, 8.0])
def test_a_trial_told_by_the_judge_is_derived_again_to_the_last_figure(
    seed: int, gain: float
) -> None:
    told = tell(Random(seed), gain=gain)

    found = rederive(told.evidence())

    assert found.differs == [], f"seed {seed}"
    assert found.verdicts == {PLAN.policy_id: told.verdict}
    assert found.units >= 5
    assert found.figures > 30


def test_better_worse_and_equal_candidates_get_their_verdicts() -> None:
    verdicts = [tell(Random(3), gain=gain).verdict for gain in (8.0, 0.2, 1.0)]

    assert verdicts == ["IMPROVED", "HARMED", "INCONCLUSIVE"]


def test_e_values_and_coins_are_those_of_the_judge() -> None:
    rng = Random(5)
    for _ in range(200):
        ds = [rng.gauss(0, 0.3) for _ in range(rng.randrange(0, 20))]
        margin = rng.uniform(0.01, 0.2)
        theirs = e_value(ds, scale=0.5), guard_e_value(ds, margin=margin)
        ours = (
            arithmetic.e_value(ds, 0.5),
            arithmetic.e_value([d + margin for d in ds], margin, arithmetic.GUARD_GRID),
        )
        assert ours == pytest.approx(theirs, rel=1e-12), f"{ds}"
    assert all(arithmetic.coin(9, unit) == list(arms(9, unit)) for unit in range(64))


@pytest.mark.parametrize("units", [8, 60, 95])
def test_a_plan_that_excludes_rare_losses_or_has_an_alpha_of_its_own_for_harm_rules_alike(
    units: int,
) -> None:
    careful = plan(rarest_loss=0.05, alpha=0.001, harm_alpha=0.01, max_units=200)
    rng, found = Random(units), set()
    for level in (-0.4, 0.0, 0.4):
        for rare in (0.0, -0.3):
            ds = [rng.gauss(level, 0.1) for _ in range(units)]
            guards = [rare if n == 3 else rng.gauss(0.02, 0.02) for n in range(units)]
            judged = trial(ds, guards, plan=careful)
            rows = [unit.d for unit in judged.units]
            ours = arithmetic.ruling(msgspec.to_builtins(careful), rows, closed=units, trips=0)
            assert ours == rule_on(judged).verdict, f"seed {units}, level {level}, rare {rare}"
            found.add(ours)
    assert found == ({None, "HARMED", "IMPROVED"} if units >= 90 else {None, "HARMED"})


def test_a_request_that_becomes_good_afterwards_is_noticed() -> None:
    told = tell(Random(1), gain=8.0)
    row = next(r for r in told.requests if _counts(r) and r["good"] is not True)
    row["good"] = True

    assert any("d of attainment" in words for words in rederive(told.evidence()).differs)


def test_a_second_with_other_tokens_is_noticed() -> None:
    told = tell(Random(1), gain=8.0)
    tick = next(s for s in told.seconds[10:] if s["waiting"]["batch"])
    tick["output_tokens"]["batch"] += 1

    differs = rederive(told.evidence()).differs

    assert any("d of tokens_per_s:batch" in words for words in differs)


def test_another_coin_order_than_the_seed_gives_is_noticed() -> None:
    told = tell(Random(1), gain=8.0)
    _alter(told, "trial.frozen", lambda details: details["plan"].update(seed=PLAN.seed + 1))

    assert any("coin" in words for words in rederive(told.evidence()).differs)


def test_another_alpha_than_was_frozen_is_noticed() -> None:
    told = tell(Random(1), gain=8.0)
    _alter(told, "trial.frozen", lambda details: details["plan"].update(alpha="0.000001"))

    assert any("told IMPROVED" in words for words in rederive(told.evidence()).differs)


def test_a_verdict_that_the_evidence_does_not_give_is_noticed() -> None:
    told = tell(Random(1), gain=0.2)
    _alter(told, "trial.verdict", lambda details: details.update(verdict="IMPROVED"))

    differs = rederive(told.evidence()).differs

    assert any("the evidence says HARMED" in words for words in differs)


def test_a_block_that_the_engine_never_had_is_noticed() -> None:
    told = tell(Random(1), gain=8.0)
    del told.changes[3]

    assert any("not in the change log" in words for words in rederive(told.evidence()).differs)


def test_a_block_that_began_at_another_time_is_noticed() -> None:
    told = tell(Random(1), gain=8.0)
    told.changes[3]["at"] += 0.001

    assert any("began at another time" in words for words in rederive(told.evidence()).differs)


def test_an_approval_by_the_proposer_is_noticed() -> None:
    told = tell(Random(1), gain=8.0)
    _alter(told, "policy.approved", lambda details: None, actor="plant:curve")

    assert any("who proposed it" in words for words in rederive(told.evidence()).differs)


def test_a_policy_without_its_read_back_is_noticed() -> None:
    told = tell(Random(1), gain=0.2)
    del told.lines[-2:]

    assert any("yet it went" in words for words in rederive(told.evidence()).differs)


def test_altered_bytes_and_missing_lines_are_no_audit() -> None:
    lines = tell(Random(1), gain=8.0).lines
    swapped = lines[0].replace("plant:curve", "plant:other")

    with pytest.raises(NotAnAuditError, match="leaf hash"):
        read_export([swapped, *lines[1:]])
    with pytest.raises(NotAnAuditError, match="stands in place 3"):
        read_export([*lines[:3], *lines[4:]])


def test_a_run_without_trials_has_nothing_to_disagree_with() -> None:
    told = Told()
    told.note("key_a", "mode.set", "active_cap")

    found = rederive(told.evidence())

    assert (found.differs, found.units, trials_in(told.evidence().entries)) == ([], 0, [])


def _counts(row: dict[str, object]) -> bool:
    """Counted for sure: arrived in the middle of its block and done before the block's end."""
    block, arrival_us = row["block"], row["arrival_us"]
    assert isinstance(block, int) and isinstance(arrival_us, int)
    into_s = (arrival_us - 1_700_000_000_000_000) / 1e6 - 20 * block
    done = row["finished_us"]
    return 6 < into_s < 12 and isinstance(done, int) and done < arrival_us + 3_000_000


def _alter(told: Told, action: str, change: object, **members: object) -> None:
    """Rewrite entries of an action, with their hashes: an insider who knows how."""
    lines, told.lines = told.lines, []
    for raw in lines:
        entry = json.loads(json.loads(raw)["entry"])
        if entry["action"] == action:
            assert callable(change)
            change(entry["details"])
            entry |= members
        told.note(entry["actor"], entry["action"], entry["subject"], **entry["details"])

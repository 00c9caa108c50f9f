"""The end of ``--exit``: the story derived again from exports, and held to what was told."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from examples.journey.arithmetic import Row, coin, number
from examples.journey.audit_trail import TrialTrail, read_export, states_of, trials_in
from examples.journey.options import DEFAULT_SEED, Options
from examples.journey.rederive import Evidence, Rederived, rederive
from examples.journey.sample import LADDER, TPOT_SAFETY
from examples.journey.stage import Stage

BY_EVIDENCE = ("IMPROVED", "HARMED")
COINS = 16
ROUNDED_MS = 0.1
"""Evidence is told in rounded figures."""


def gather(stage: Stage) -> Evidence:
    """Export everything that an auditor may have."""
    entries = read_export(stage.viewer.lines("/v1/audit"))
    trials = [trail.id for trail in trials_in(entries)]
    return Evidence(
        entries=entries,
        changes=stage.engine_changes(),
        requests={trial: _rows(stage, trial, "requests") for trial in trials},
        seconds={trial: _rows(stage, trial, "seconds") for trial in trials},
    )


def check(stage: Stage, evidence: Evidence, told: dict[str, Any]) -> tuple[Rederived, list[str]]:
    """What was computed again, and everything that is not as it should be."""
    found = rederive(evidence)
    wrong = [*found.differs, *_expected(stage.options, evidence, found, told)]
    return found, wrong


def _expected(
    options: Options, evidence: Evidence, found: Rederived, told: dict[str, Any]
) -> list[str]:
    """What this kind of run must have come to."""
    wrong = []
    trails = trials_in(evidence.entries)
    if any(number(trail.plan["alpha"]) != options.alpha for trail in trails):
        wrong.append("a trial was frozen with another α than asked for")
    if not options.traffic:
        return wrong + _only_no_data(evidence, found)
    if options.law_only:
        return wrong + law_fits(told["law"], options.tpot_ms)
    if not any(verdict in BY_EVIDENCE for verdict in found.verdicts.values()):
        wrong.append("no verdict was reached by evidence")
    bad = told.get("bad")
    if bad is not None and states_of(evidence.entries, bad["id"])[-1] != "reverted":
        wrong.append("the bad change was not reverted")
    if bad is None:
        wrong += _nothing_undone(evidence, found)
    if options.seed != DEFAULT_SEED:
        wrong += [words for trail in trails for words in _other_coins(options.seed, trail)]
    return wrong


def _only_no_data(evidence: Evidence, found: Rederived) -> list[str]:
    verdicts = sorted(found.verdicts.values())
    return [] if verdicts == ["NO_DATA"] else [f"verdicts without traffic: {verdicts}"]


def _nothing_undone(evidence: Evidence, found: Rederived) -> list[str]:
    undone = [e["subject"] for e in evidence.entries if e["action"] == "policy.reverting"]
    harmed = [policy for policy, verdict in found.verdicts.items() if verdict == "HARMED"]
    wrong = [f"policy {policy} was reverted, and nothing bad was proposed" for policy in undone]
    return wrong + [f"policy {policy} was judged HARMED" for policy in harmed]


def _other_coins(seed: int, trail: TrialTrail) -> list[str]:
    """Another declared seed must toss other coins for the same change."""
    hypothesis = str(trail.plan["hypothesis"])
    words = hypothesis.partition(" raises ")[0]
    if trail.plan["seed"] != trial_seed(seed, words):
        return [f"trial {trail.id} does not toss the coins of seed {seed}"]
    mine = [coin(trail.plan["seed"], unit) for unit in range(COINS)]
    usual = [coin(trial_seed(DEFAULT_SEED, words), unit) for unit in range(COINS)]
    return [f"seeds {seed} and {DEFAULT_SEED} toss the same coins"] if mine == usual else []


def trial_seed(declared: int, words: str) -> int:
    """The trial's own seed, from the declared one and the change in words."""
    return int.from_bytes(hashlib.sha256(f"{declared}:{words}".encode()).digest()[:4], "big")


def law_fits(law: Row, tpot_ms: float) -> list[str]:
    """The law's cap meets the limit by the measured curve, and the next ladder value would not.

    Both with the plant's safety. The lowest value may miss the limit: no other misses by less.
    """
    cap = law["setting"]["law"]["steps"][0]["value"]
    following = next(value for value in LADDER if value > cap)
    at_cap, at_next = (
        (1 + TPOT_SAFETY) * predicted_tpot_ms(law["evidence"], one) for one in (cap, following)
    )
    wrong = []
    if at_cap > tpot_ms + ROUNDED_MS and cap != LADDER[0]:
        wrong.append(f"cap {cap} needs {at_cap:.1f} ms, over {tpot_ms:g} ms")
    if at_next <= tpot_ms - ROUNDED_MS:
        wrong.append(f"cap {following} would do too: {at_next:.1f} ms, limit {tpot_ms:g} ms")
    return wrong


def predicted_tpot_ms(evidence: Mapping[str, float], cap: int) -> float:
    """base + b·(c + p·ρ), from the figures that the policy gives as its evidence."""
    prefill_ms = evidence["per_prompt_token_ms"] * evidence["prefill_per_decode"]
    return evidence["base_ms"] + cap * (evidence["per_sequence_ms"] + prefill_ms)


def _rows(stage: Stage, trial: str, what: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stage.viewer.lines(f"/v1/trials/{trial}/{what}")]

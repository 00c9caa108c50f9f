"""A trial on the screen: its plan, each unit with coin, d and E as it closes, and its verdict."""

from __future__ import annotations

import statistics
from typing import Any

from examples.journey.figures import Period
from examples.journey.sample import TARGET
from examples.journey.stage import Stage

SLACK_S = 90.0
OVER = "trial over"
"""Why the unit that ran at the verdict is void; it is not worth a line."""


class TrialWatch:
    """Follows one policy from its approval to the end of its trial."""

    def __init__(self, stage: Stage, policy_id: str) -> None:
        self._stage = stage
        self._policy_id = policy_id
        self._told = 0
        self.trial: dict[str, Any] = {}

    def begun(self) -> None:
        """Wait until the engine was seen with the trial's first block, and tell the plan."""
        stage = self._stage
        stage.wait(
            f"policy {self._policy_id} to be applied and read back",
            lambda: self._state() in ("on_trial", "failed", "kept", "reverted"),
            SLACK_S,
        )
        policy = stage.policy(self._policy_id)
        if policy["state"] == "failed":
            raise TrialFailedError(f"{policy['words']}: {policy['cause']}")
        self._look(policy["trial"])
        plan = self.trial["plan"]
        stage.screen.say(
            f"applied and read back. trial {plan['id']}: α = {plan['alpha']:g}, guards "
            f"{plan['guard_alpha']:g}; blocks of {plan['block_s']:g} s (washout "
            f"{plan['washout_s']:g} s), {plan['min_units']} to {plan['max_units']} units;\n"
            f"improved needs E ≥ {1 / plan['alpha']:.0f}, harmed E ≥ {self._harmed_at():.0f}; "
            f"U's reference is {plan['reference_tokens_per_s']:.0f} tokens/s"
        )

    def ended(self) -> dict[str, Any]:
        """Wait for the verdict, telling each unit; the policy as it then is."""
        stage, plan = self._stage, self.trial["plan"]
        longest_s = 2 * plan["max_units"] * (2 * plan["block_s"] + 1) + SLACK_S
        stage.wait(
            f"the verdict on policy {self._policy_id}",
            self._over,
            longest_s,
            progress=self._progress,
        )
        return stage.policy(self._policy_id)

    def arms(self) -> list[Period]:
        """Batch tokens/s and live attainment of each arm over the counted units."""
        return [
            self._arm("during, baseline's blocks", "baseline"),
            self._arm("during, candidate's blocks", "candidate"),
        ]

    def _arm(self, name: str, arm: str) -> Period:
        units = [unit["values"][arm] for unit in self.trial["units"] if unit["judged"]]
        return Period(
            name=name,
            tokens_per_s=_mean(units, "tokens_per_s:batch"),
            attainment=_mean(units, "attainment:live"),
        )

    def _over(self) -> bool:
        self._look(self.trial["plan"]["id"])
        self._tell()
        return self._state() in ("kept", "reverting", "reverted", "expired", "failed")

    def _look(self, trial_id: str) -> None:
        self.trial = self._stage.viewer.get(f"/v1/trials/{trial_id}")

    def _state(self) -> str:
        return str(self._stage.policy(self._policy_id)["state"])

    def _tell(self) -> None:
        closed = [u for u in self.trial["units"] if u["judged"] or u["void"] is not None]
        for unit in closed[self._told :]:
            if unit["void"] != OVER:
                self._stage.screen.say(self._unit_words(unit))
        self._told = len(closed)

    def _unit_words(self, unit: dict[str, Any]) -> str:
        coin = " then ".join(block["arm"] for block in unit["blocks"])
        if unit["void"] is not None:
            return f"unit {unit['index']}  {coin:<26}  void: {unit['void']}"
        d, e = unit["d"], unit["e"]
        guards = ", ".join(f"{g['metric']} {d.get(g['metric'], 0):+.3f}" for g in self._guards())
        return (
            f"unit {unit['index']}  {coin:<26}  d(U) = {d.get('U', 0):+.3f}  "
            f"E better {e['U>0']:.3g}, worse {e['U<0']:.3g}   ({guards})"
        )

    def _progress(self) -> str:
        units = self.trial["units"]
        if not units:
            return "waiting for the first block"
        block = units[-1]["blocks"][-1]
        plan = self.trial["plan"]
        live = self._stage.figures.latest("live.attainment")
        rate = self._stage.figures.latest("batch.tokens_per_s")
        return (
            f"unit {units[-1]['index']} of {plan['min_units']}–{plan['max_units']}, "
            f"block {block['index']}: {block['arm']}; batch "
            f"{'–' if rate is None else f'{rate:.0f}'} tokens/s, live "
            f"{'–' if live is None else f'{live:.0%}'}"
        )

    def _guards(self) -> list[dict[str, Any]]:
        guards: list[dict[str, Any]] = self.trial["plan"]["guards"]
        return guards

    def _harmed_at(self) -> float:
        return float((len(self._guards()) + 1) / self.trial["plan"]["alpha"])


class TrialFailedError(Exception):
    """A policy could not be tried at all."""


def undo_words(stage: Stage, policy: dict[str, Any]) -> str:
    """The stopwatch: from the moment the way back began to the engine, and to the read-back."""
    stage.wait(
        f"policy {policy['id']} to be read back as reverted",
        lambda: stage.policy(policy["id"])["state"] in ("reverted", "expired", "failed"),
        30.0,
    )
    after = stage.policy(policy["id"])
    changes = [c for c in stage.engine_changes() if c["at"] * 1e6 >= policy["undo_us"]]
    engine_ms = (changes[0]["at"] * 1e6 - policy["undo_us"]) / 1000 if changes else float("nan")
    read_ms = (after["updated_us"] - policy["undo_us"]) / 1000
    return (
        f"stopwatch on {TARGET}: engine changed after {engine_ms:.0f} ms, "
        f"read back as {after['state']} after {read_ms:.0f} ms"
    )


def _mean(units: list[dict[str, float]], metric: str) -> float | None:
    found = [values[metric] for values in units if metric in values]
    return statistics.fmean(found) if found else None

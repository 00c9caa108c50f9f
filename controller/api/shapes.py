"""Records as the API shows them: the record's own members and what a reader needs beside them."""

from __future__ import annotations

from typing import Any

import msgspec

from controller.approving import next_step
from controller.judge.series import series
from controller.judge.verdict import e_values
from controller.store.port import Tx
from controller.trials import Trial
from policies.baseline import Baseline
from policies.overrides import Override
from policies.policy import Policy
from policies.settings import Effective


def policy(found: Policy) -> dict[str, Any]:
    """A policy with its change in words and the digest that an approval must name."""
    return {
        **msgspec.to_builtins(found),
        "words": found.words(),
        "shown_digest": found.shown_digest,
        "needs": next_step(found),
    }


def approvals(tx: Tx, policy_id: str) -> list[dict[str, Any]]:
    """Who moved a policy, when, to what: its audit entries without their details."""
    return [
        {"at_us": entry.at_us, "actor": entry.actor, "action": entry.action, "index": entry.index}
        for entry in tx.audit(subject=policy_id)
    ]


def trial(found: Trial) -> dict[str, Any]:
    """A trial with every test's E after each unit, and all of it as lines to plot."""
    shown: dict[str, Any] = msgspec.to_builtins(found)
    for index, unit in enumerate(shown["units"]):
        so_far = msgspec.structs.replace(found, units=found.units[: index + 1])
        unit["e"] = e_values(so_far) if found.units[index].judged else None
    return {**shown, "series": msgspec.to_builtins(series(found))}


def trial_line(found: Trial) -> dict[str, Any]:
    """One line about a trial: where it stands, against what."""
    plan, ruling = found.plan, found.ruling
    return {
        "id": plan.id,
        "policy_id": plan.policy_id,
        "target": plan.target,
        "knob": plan.knob,
        "design": plan.design,
        "hypothesis": plan.hypothesis,
        "state": found.state,
        "paused_by": found.paused_by,
        "alpha": plan.alpha,
        "guard_alpha": plan.guard_alpha,
        "min_units": plan.min_units,
        "max_units": plan.max_units,
        "block_s": plan.block_s,
        "washout_s": plan.washout_s,
        "units": len(found.units),
        "units_judged": sum(unit.judged for unit in found.units),
        "trips": found.trips,
        "ruling": msgspec.to_builtins(ruling) if ruling is not None else None,
        "began_us": found.began_us,
        "ended_us": found.ended_us,
    }


def effective(found: Effective | None) -> dict[str, Any] | None:
    """A knob's desired setting, in words too; None when nothing is desired of it."""
    if found is None:
        return None
    return {
        "setting": msgspec.to_builtins(found.setting),
        "words": found.setting.words(),
        "policy_id": found.policy_id,
        "expires_us": found.expires_us,
    }


def override(found: Override) -> dict[str, Any]:
    """An override in words too."""
    return {**msgspec.to_builtins(found), "words": found.words()}


def baseline(found: Baseline | None) -> dict[str, Any] | None:
    """A version of the baseline with its digest; None where nobody declared any."""
    if found is None:
        return None
    words = {at: setting.words() for at, setting in found.settings.items()}
    return {**msgspec.to_builtins(found), "digest": found.digest, "words": words}

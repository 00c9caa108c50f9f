"""Users' feedback in one step: units that ripen, policies kept provisionally, how many it takes.

A policy that was kept on what the engine tells stays ``provisional`` until those who were exposed
in its trial are as old as the metrics that it is confirmed by ask. Then it is looked at once, by
its own trial's blocks, both arms: it stays ("policy.confirmed"), or goes back with the cause.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from controller.judge.confirmation import AgedRows, Confirmation, aged_d, confirmation
from controller.reading import undo
from controller.state import BlockRows, Draft, Seen
from controller.trial import blocks
from controller.trial.feedback import asks_feedback, sized_words
from controller.trial.ripening import is_provisional
from controller.trial.splitting import split_now
from controller.trial.starting import planned
from controller.trials import Trial, TrialPlan
from policies.policy import Policy, Verdict

_ORDER = ("harmed", "not_shown", "no_data")
"""Of several causes the first of these gives the verdict."""
VERDICTS: dict[str, Verdict] = {"harmed": "HARMED", "no_data": "NO_DATA"}
"""Of a policy that goes back; else INCONCLUSIVE."""


def ripen(draft: Draft, trial: Trial, seen: Seen) -> Trial:
    """The trial with the primary metric's difference of units whose exposures are old enough."""
    aged = trial.plan.aged_primary
    if aged is None:
        return trial
    for unit in blocks.ripening(trial, closed_us=seen.closed_us):
        if not all(block.index in seen.due for block in unit.blocks):
            continue
        rows = _rows({block.index: seen.due[block.index] for block in unit.blocks})
        d, means = aged_d(trial, unit, aged, rows)
        shown = {arm: {**unit.values.get(arm, {}), aged.metric: of} for arm, of in means.items()}
        known = unit.d if d is None else {**unit.d, aged.metric: d}
        ripe = msgspec.structs.replace(unit, ripe=True, d=known, values={**unit.values, **shown})
        trial = blocks.with_unit(trial, ripe)
        draft.note("trial.ripe", trial.plan.id, unit=unit.index, metric=aged.metric, d=d)
    return trial


def confirm(draft: Draft, seen: Seen) -> None:
    """Confirm what was kept provisionally, or take it back."""
    for policy_id, rows in seen.aged.items():
        policy, trial = draft.policies.get(policy_id), draft.state.asked.confirming.get(policy_id)
        if policy is None or trial is None or not is_provisional(policy):
            continue
        known = _rows(rows)
        found = [confirmation(trial, aged, known) for aged in trial.plan.aged]
        for one in found:
            draft.note(
                "trial.feedback", trial.plan.id, policy=policy.id, **msgspec.to_builtins(one)
            )
        against = [one for one in found if not one.stays]
        if against:
            _take_back(draft, policy, against)
        else:
            draft.amend(policy, "confirmed", provisional=False, confirm_us=draft.now_us)


def size(draft: Draft, seen: Seen) -> None:
    """Say of what waits for a person or its turn how many must be exposed, before it begins."""
    if seen.observed is None or seen.plant is None:
        return
    specs = {spec.name: spec for spec in seen.observed.knobs}
    for policy in draft.state.policies:
        waits = policy.state in ("pending", "approved") and draft.policies[policy.id] is policy
        if not waits or policy.sized or policy.knob not in specs or not asks_feedback(policy):
            continue
        split = split_now(policy, draft.declared, specs[policy.knob], seen, seed=0)
        found = planned(draft, policy, seen, seen.plant, trial_id="", seed=0, split=split)
        draft.amend(policy, "sized", sized=_sizes(found))


def _sizes(found: TrialPlan | str) -> tuple[str, ...]:
    if isinstance(found, str):
        return (f"as things are it can't be tried: {found}",)
    every = found.aged if found.aged_primary is None else (found.aged_primary, *found.aged)
    return tuple(sized_words(found, one) for one in every)


def _rows(found: Mapping[int, BlockRows]) -> dict[int, AgedRows]:
    return {
        index: AgedRows(requests=one.requests, outcomes=one.outcomes, earlier=one.earlier)
        for index, one in found.items()
    }


def _take_back(draft: Draft, policy: Policy, against: list[Confirmation]) -> None:
    """The way back of a kept policy; another's trial that stands on it is no longer what it was."""
    worst = min(against, key=lambda one: _ORDER.index(one.found))
    verdict = VERDICTS.get(worst.found, "INCONCLUSIVE")
    cause = f"{verdict}: {'; '.join(one.words for one in against)}"
    undo(draft, policy, cause=cause, verdict=verdict, provisional=False)
    trial = draft.trial
    if trial is None or trial.state == "done":
        return
    tried = draft.policies[trial.plan.policy_id]
    if tried.place == policy.place and tried.state in ("applying", "on_trial", "paused"):
        below = f"INCONCLUSIVE: {policy.id}, below it, was reverted"
        undo(draft, tried, cause=below, verdict="INCONCLUSIVE")
    elif trial.state == "running":
        cut = blocks.cut(trial, now_us=draft.now_us, why=f"{policy.id} was reverted")
        draft.trial = blocks.begin(cut, now_us=draft.now_us)

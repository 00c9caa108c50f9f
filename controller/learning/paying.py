"""What the safety budget leaves of a menu, and what never needs it.

The budget bounds what is tried *away* from the baseline. What leads towards the baseline, or to the
side that a person declared safer, is never barred: the baseline itself can't earn less than the
baseline, a setting on the way to it gives up a part of what set them apart, and what is safer is a
person's word. So a budget that is spent always leaves the way back.
"""

from __future__ import annotations

from collections.abc import Sequence

from controller.learner.credit import spent
from controller.learner.port import Menu
from controller.learner.promise import Gain
from controller.learning.crediting import bounds, covers_doubt, gain_of, in_doubt
from controller.learning.menus import Place, origin
from controller.learning.notes import Notes
from controller.limiting import risk_of
from controller.state import Draft
from policies.proposal import Proposal
from policies.settings import Setting


def paid_for(
    draft: Draft, place: Place, found: Menu, thought: Sequence[Gain], notes: Notes
) -> Menu:
    """The menu as far as the safety budget goes; without sums an action could earn nothing.

    Staying is always on it: what can't be paid for while in doubt is taken back (``doubting``).
    """
    settings = draft.declared.learner
    ledger, span_s = notes.ledger(settings), draft.declared.trial.block_s
    reckoned = bounds(
        notes,
        thought,
        [index for index in found.allowed if index != found.current],
        baseline=found.baseline,
        gained=gain_of(notes, place),
        deviations=settings.worst_sd,
    )
    if in_doubt(notes, place):
        covered = covers_doubt(ledger, at_us=draft.now_us, span_s=span_s)
    else:
        covered = reckoned.affords(ledger, at_us=draft.now_us, span_s=span_s)
    if covered:
        return found
    free = [one.id for one in found.actions if lowers(draft, place, one.arms[0].setting)]
    return spent(found, ledger, at_us=draft.now_us, current_is_kept=True, free=free)


def lowers(draft: Draft, place: Place, setting: Setting) -> bool:
    """Whether a change leads towards the baseline or to the side that was declared safer."""
    change = Proposal(
        target=draft.declared.name,
        knob=place.knob,
        setting=setting,
        before=place.current,
        origin=origin(draft),
        reason="",
    )
    policies, baseline = draft.policies.values(), draft.state.baseline
    found = risk_of(draft.declared, change, place.spec, policies=policies, baseline=baseline)
    return found.lowers

"""Doubt: what was kept was judged on an engine that is no more.

::

    drift, with signs of it for ``doubt_after_s`` ─┬─► doubt: of what was learned ``old_share``
    another fingerprint ───────────────────────────┘   counts, and what was kept is in doubt:
        what latencies were usual is forgotten, so that the alarm ends where nothing more changes
        its next trials are reviews: the drift alarm, which is their reason, does not stop them
        its ledger has no worst case any more (``crediting``): credit of before is what it may cost
        no credit is left to stay, or no trial to review it while going back is expected to be
        better ──► taken back at once, without a trial

A verdict says what a change did to the engine as it was. So when the engine has changed there is
nothing left that speaks for what is kept, and the baseline that a person declared is not worse than
it by anything that is known. It is not taken back at the first sign all the same: most alarms come
of changes that leave the better setting better, each would cost an hour or two of what it earns,
and credit was earned that can pay for finding out. Finding out is a trial like any other, drawn
from the whole menu with a posterior that has forgotten most of what it knew: of the baseline, of
the setting that was kept before, or of one further in that direction.

A trial of the baseline ends the doubt, whichever way: what it found stands in the ledger from then
on. Nothing is taken back that a person proposed or approved, outside of mode ``auto``, or where
somebody has his hand on the place.

Why not at a fall of U: it falls with the load, too, and says nothing of what another setting would
earn now. Drift is what the load does not explain. Why not the sums from nothing: an engine that is
slower by a quarter mostly has the same order of settings.
"""

from __future__ import annotations

from msgspec import structs

from controller.learner.registry import weighed
from controller.learning.crediting import covers_doubt
from controller.learning.menus import Place
from controller.learning.notes import Level, Notes, note, noted, text
from controller.reading import undo
from controller.state import LOOP, Draft, Seen
from policies.knobs import TARGET_SCOPE
from policies.policy import Policy
from signals.events import MICROS


def doubt(draft: Draft, seen: Seen) -> None:
    """Note once that the engine has changed, and let most of what was learned of it go."""
    if draft.declared.learner.algorithm == "off":
        return
    notes = noted(draft)
    shown = "" if seen.plant is None else seen.plant.fingerprint
    words, since_us = _drifted(draft, notes)
    if shown and notes.fingerprint and shown != notes.fingerprint:
        words, since_us = f"the engine was {notes.fingerprint}, and is {shown}", draft.now_us
    if not words and (not shown or shown == notes.fingerprint):
        return
    notes = structs.replace(notes, fingerprint=shown or notes.fingerprint)
    if words:
        draft.drift = draft.drift.anew()
        notes = _forgotten(draft, notes, since_us)
        kept = [one.id for one in draft.in_state("kept")]
        draft.note(
            "learner.doubts",
            draft.declared.name,
            why=words,
            since_us=since_us,
            kept=kept,
            old_share=draft.declared.learner.old_share,
        )
    note(draft, notes)


def why_back(draft: Draft, notes: Notes, place: Place, *, waits: str) -> str:
    """Why what is kept there can't even be reviewed and goes at once; empty: it need not.

    ``waits``: the guardrail that keeps a trial from starting there now.
    """
    settings, behind = draft.declared.learner, notes.behind.get(place.knob, 0.0)
    ledger, span_s = notes.ledger(settings), draft.declared.trial.block_s
    if not covers_doubt(ledger, at_us=draft.now_us, span_s=span_s):
        return "the safety budget does not cover staying with it"
    if waits == "trial_budget" and behind > 0:
        return f"no trial is left to review it, and without it U is expected {behind:.3f} higher"
    return ""


def take_back(draft: Draft, place: Place, why: str) -> bool:
    """Take what is kept on a place out at once, if that is the loop's to do."""
    knob = place.knob
    kept = [one for one in draft.in_knob(knob, {"kept"}) if one.scope == TARGET_SCOPE]
    mode = draft.declared.target.knobs.mode(knob, draft.state.modes.get(knob))
    if mode != "auto" or not all(_of_the_loop(one) for one in kept):
        return False
    for policy in kept:
        undo(draft, policy, cause=f"in doubt since the engine changed: {why}")
    return bool(kept)


def _drifted(draft: Draft, notes: Notes) -> tuple[str, int]:
    """The alarm that has lasted, in words, and when it began; empty where it was heeded before."""
    alarm, least_us = draft.drift.alarm, draft.declared.learner.doubt_after_s * MICROS
    if alarm is None or alarm.since_us <= notes.doubt_us:
        return "", 0
    if alarm.last_us - alarm.since_us < least_us:
        return "", 0
    return alarm.words, alarm.since_us


def _forgotten(draft: Draft, notes: Notes, since_us: int) -> Notes:
    settings = draft.declared.learner
    known = {at: notes.learner(settings, at, position=0.0) for at in notes.learners}
    return structs.replace(
        notes,
        doubt_us=since_us,
        learners={at: text(weighed(one, settings.old_share)) for at, one in known.items()},
        measured={},
        level=Level(),
        behind={},
        explained={},
    )


def _of_the_loop(policy: Policy) -> bool:
    by_person = policy.origin.kind == "person" or policy.approvals
    return not by_person and policy.decided_by == LOOP

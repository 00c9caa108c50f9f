"""What a key is bounded to: some targets, and some intents within them.

A key for some intents (``live``) only

- **acts** on what has one of them as its scope: a policy or an override of ``live``, a body that
  names ``live``. What concerns the whole target (hold, kill, a policy of scope ``target``, a mode,
  the baseline) is not his: the other intents would feel it. Nor is what concerns none (keys);
- **reads** records of his intents, and of the whole target, for that is where he lives. Of records
  that name another intent he sees none: lists leave them out, or ask him to name ``?intent=``.

Overviews of a target (its state, settings, features) show all of it: an engine is shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from controller.keys import ANY, covers
from controller.store.port import Principal, Tx
from policies.knobs import TARGET_SCOPE
from signals.errors import Denied


class Subject(NamedTuple):
    """What a call is about. ``target`` None: all of them; ``scope`` None: it names no scope."""

    target: str | None
    scope: str | None = None


def check_target(principal: Principal, target: str | None) -> None:
    """Raise ``Denied`` unless the key covers this target; None means all of them."""
    if not covers(principal.targets, ANY if target is None else target):
        raise Denied(
            f"the key of {principal.name} covers {_named(principal.targets)},"
            f" not {target or 'all targets: name one with ?target='}"
        )


def check_scope(principal: Principal, scope: str) -> None:
    """Raise ``Denied`` unless the key may act on this scope: ``target``, or an intent's name.

    ``*`` is what concerns no single target: only a key of every intent may act on it.
    """
    if ANY not in principal.intents and scope not in principal.intents:
        what = {TARGET_SCOPE: "the whole target", ANY: "all of them"}.get(scope, scope)
        raise Denied(
            f"the key of {principal.name} is for intents {_named(principal.intents)}, not {what}"
        )


def check_sees_all(principal: Principal) -> None:
    """Raise ``Denied`` for a key of some intents: the audit holds records of all of them."""
    if ANY not in principal.intents:
        raise Denied(
            f"the key of {principal.name} is for intents {_named(principal.intents)};"
            " this is about all of them. See /v1/targets/{target}/timeline"
        )


def sees(principal: Principal, scope: str) -> bool:
    """Whether the key may read what has this scope: its intents, and the whole target."""
    return scope == TARGET_SCOPE or covers(principal.intents, scope)


def check_sight(principal: Principal, scope: str | None) -> None:
    """Raise ``Denied`` unless ``sees``; None means every intent."""
    if scope is None and ANY not in principal.intents:
        raise Denied(
            f"the key of {principal.name} is for intents {_named(principal.intents)}:"
            " name one with ?intent="
        )
    if scope is not None and not sees(principal, scope):
        check_scope(principal, scope)


def subject_in(tx: Tx, named: dict[str, str]) -> Subject | None:
    """What the record that a path names is about; None where no parameter names one.

    Raises ``NotFound``.
    """
    if "policy_id" in named:
        policy = tx.policy(named["policy_id"])
        return Subject(policy.target, policy.scope)
    if "override_id" in named:
        override = tx.override(named["override_id"])
        return Subject(override.target, override.scope)
    if "trial_id" in named:
        plan = tx.trial(named["trial_id"]).plan
        return Subject(plan.target, tx.policy(plan.policy_id).scope)
    if "change_id" in named:
        return Subject(tx.declared_change(named["change_id"]).target)
    return None


def _named(allowed: Sequence[str]) -> str:
    return ", ".join(allowed) or "none"

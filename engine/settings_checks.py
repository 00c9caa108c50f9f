"""Everything about a patch that can be refused without knowing what is in force. Pure.

Each refusal names the field as it is written on the wire, its value and what was allowed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from policies import laws
from policies.knobs import KnobSpec
from policies.laws import Law
from policies.runtime_config import (
    MAX_EXPIRY_S,
    Fallback,
    Patch,
    RuntimeConfig,
    SettingChange,
    TrialStamp,
)
from policies.session_split import MAX_SALT
from signals.errors import Conflict, Rejected

MAX_NAME = 128
MAX_BLOCK = 1_000_000
NAME = re.compile(r"[\x21-\x7e]+")
"""Printable ASCII: names travel in an HTTP header."""


def check_patch(patch: Patch, specs: Mapping[str, KnobSpec], classes: Sequence[str]) -> None:
    """Raise ``Rejected`` unless every part of the patch could be applied to this engine."""
    _check_name(patch.change_id, "change_id")
    if patch.epoch < 0:
        raise Rejected("epochs start at 0", field="epoch", value=patch.epoch, allowed=">= 0")
    if patch.trial is not None:
        _check_trial(patch.trial)
    seen: set[tuple[str, str, str | None]] = set()
    for index, change in enumerate(patch.settings):
        field = f"settings[{index}]"
        if (change.knob, change.scope, change.arm) in seen:
            raise Rejected("the same knob twice", field=f"{field}.knob", value=change.knob)
        seen.add((change.knob, change.scope, change.arm))
        _check_change(change, specs, classes, field)
        if change.arm is not None:
            _check_arm(change, specs[change.knob], patch.trial, field)


def check_present(patch: Patch, *, epoch: int, present: str) -> None:
    """Raise ``Conflict`` where a later epoch was seen, or something else is in force by now.

    ``present``: ``incarnation:version``.
    """
    if patch.epoch < epoch:
        raise Conflict(
            f"fenced: epoch {patch.epoch} is lower than {epoch}, which has been seen",
            field="epoch",
            value=patch.epoch,
            allowed=f">= {epoch}",
        )
    if patch.expected != present:
        raise Conflict(
            f"stale: {patch.expected} was expected, but {present} is in force",
            field="expected",
            value=patch.expected,
            allowed=present,
        )


def repeated(patch: Patch, first: Patch, answer: RuntimeConfig) -> RuntimeConfig:
    """The first answer, unless the id now names another change.

    ``expected`` and ``epoch`` may differ: a caller that timed out and read back sends new ones.
    """
    if (patch.settings, patch.trial, patch.hold) == (first.settings, first.trial, first.hold):
        return answer
    raise Conflict(
        f"change {patch.change_id} was applied with other content",
        field="change_id",
        value=patch.change_id,
        allowed="a new id for a new change",
    )


def _check_trial(trial: TrialStamp) -> None:
    _check_name(trial.id, "trial.id")
    if not 0 <= trial.block <= MAX_BLOCK:
        raise Rejected(
            "no block", field="trial.block", value=trial.block, allowed=f"0..{MAX_BLOCK}"
        )
    split = trial.split
    if (trial.arm is None) == (split is None):
        raise Rejected(
            "a trial has either one arm for all or a split of sessions",
            field="trial.arm",
            value=trial.arm,
            allowed="arm, or split",
        )
    if split is None:
        return
    _check_name(split.salt, "trial.split.salt")
    if len(split.salt) > MAX_SALT:
        raise Rejected(
            "the salt is too long", field="trial.split.salt", allowed=f"1..{MAX_SALT} characters"
        )
    if not 0 < split.share < 1:
        raise Rejected(
            "no share of the sessions",
            field="trial.split.share",
            value=split.share,
            allowed="0 < share < 1",
        )


def _check_arm(change: SettingChange, spec: KnobSpec, trial: TrialStamp | None, field: str) -> None:
    """Settings of the candidate's sessions need a split, a knob that can be, and an end."""
    if change.arm != "candidate" or trial is None or trial.split is None:
        raise Rejected(
            "only the candidate's sessions of a split have settings of their own",
            field=f"{field}.arm",
            value=change.arm,
            allowed="candidate, with trial.split",
        )
    if not spec.per_request:
        raise Rejected(
            f"{spec.name} is shared by all requests",
            field=f"{field}.arm",
            value=change.arm,
            allowed="knobs that are per_request",
        )
    sets = change.value is not None or change.law is not None
    if sets and change.expires_in_s is None:
        raise Rejected(
            "what half of the sessions have must end by itself",
            field=f"{field}.expires_in_s",
            allowed=f"0 < expires_in_s <= {MAX_EXPIRY_S:g} s",
        )
    if change.fallback is not None:
        raise Rejected(
            "it falls back to what all sessions have",
            field=f"{field}.fallback",
            allowed="none with arm",
        )


def _check_change(
    change: SettingChange, specs: Mapping[str, KnobSpec], classes: Sequence[str], field: str
) -> None:
    spec = specs.get(change.knob)
    if spec is None:
        raise Rejected(
            f"this engine has no knob {change.knob!r}",
            field=f"{field}.knob",
            value=change.knob,
            allowed=sorted(specs),
        )
    spec.check_scope(change.scope, field=f"{field}.scope")
    _check_choice(spec, change.value, change.law, classes, field)
    _check_shrink(change, spec, field)
    _check_expiry(change.expires_in_s, f"{field}.expires_in_s")
    if change.policy_id is not None:
        _check_name(change.policy_id, f"{field}.policy_id")
    if change.fallback is not None:
        _check_fallback(change.fallback, spec, classes, f"{field}.fallback")


def _check_fallback(fallback: Fallback, spec: KnobSpec, classes: Sequence[str], field: str) -> None:
    _check_choice(spec, fallback.value, fallback.law, classes, field)
    if fallback.policy_id is not None:
        _check_name(fallback.policy_id, f"{field}.policy_id")


def _check_choice(
    spec: KnobSpec, value: int | None, law: Law | None, classes: Sequence[str], field: str
) -> None:
    if value is not None and law is not None:
        raise Rejected("either a value or a law, not both", field=field, value=value)
    if value is not None:
        spec.check(value, field=f"{field}.value")
    if law is None:
        return
    if law.class_ is not None and law.class_ not in classes:
        raise Rejected(
            f"no class {law.class_!r}",
            field=f"{field}.law.class",
            value=law.class_,
            allowed=classes,
        )
    laws.check(law, lambda found, at: spec.check(found, field=at), field=f"{field}.law")


def _check_shrink(change: SettingChange, spec: KnobSpec, field: str) -> None:
    if change.shrink == "preempt" and spec.capability != "drain":
        raise Rejected(
            f"{spec.name} has nothing to preempt",
            field=f"{field}.shrink",
            value=change.shrink,
            allowed=("drain",),
        )


def _check_expiry(expires_in_s: float | None, field: str) -> None:
    if expires_in_s is not None and not 0 < expires_in_s <= MAX_EXPIRY_S:
        raise Rejected(
            "expiry is out of range",
            field=field,
            value=expires_in_s,
            allowed=f"0 < expires_in_s <= {MAX_EXPIRY_S:g} s",
        )


def _check_name(name: str, field: str) -> None:
    if not 1 <= len(name) <= MAX_NAME or NAME.fullmatch(name) is None:
        raise Rejected(
            f"{field} is empty, too long or not plain",
            field=field,
            value=name[:MAX_NAME],
            allowed=f"1..{MAX_NAME} printable ASCII characters without blanks",
        )

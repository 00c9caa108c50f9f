"""Everything about a patch that can be refused without knowing what is in force. Pure.

Each refusal names the field as it is written on the wire, its value and what was allowed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from policies import laws
from policies.knobs import KnobSpec
from policies.laws import Law
from policies.runtime_config import MAX_EXPIRY_S, Fallback, Patch, SettingChange
from signals.errors import Rejected

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
        _check_name(patch.trial.id, "trial.id")
        if not 0 <= patch.trial.block <= MAX_BLOCK:
            raise Rejected(
                "no block",
                field="trial.block",
                value=patch.trial.block,
                allowed=f"0..{MAX_BLOCK}",
            )
    seen: set[tuple[str, str]] = set()
    for index, change in enumerate(patch.settings):
        field = f"settings[{index}]"
        if (change.knob, change.scope) in seen:
            raise Rejected("the same knob twice", field=f"{field}.knob", value=change.knob)
        seen.add((change.knob, change.scope))
        _check_change(change, specs, classes, field)


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

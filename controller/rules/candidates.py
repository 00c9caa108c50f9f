"""Rules in a file that is not in force: read, and checked as they would be when loaded.

The file is a whole configuration (``targets: {chat: {rules: [...]}}``) or has ``rules:`` alone,
which are then meant for the target that is asked about.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec import Struct
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from controller.rules.conditions import Conditions, feature_names
from controller.rules.safety import check_emergencies
from controller.rules.settings import RuleSettings
from policies.knobs import Safer
from signals.errors import Rejected


class RuleProblem(Struct, frozen=True, kw_only=True):
    """What is wrong with one rule. ``field``: ``rules[n].when`` and the like."""

    rule: str
    field: str
    detail: str
    allowed: str = ""

    def words(self) -> str:
        """One line."""
        allowed = "" if not self.allowed or self.allowed in self.detail else self.allowed
        return f"{self.field}: {self.detail}" + (f" (allowed: {allowed})" if allowed else "")


def rules_in(tree: Mapping[str, Any], target: str) -> Sequence[Any]:
    """The raw rules that a file has for a target. Raises ``Rejected`` where there are none."""
    targets = tree.get("targets")
    if isinstance(targets, Mapping):
        if not isinstance(targets.get(target), Mapping):
            raise Rejected(
                f"the file has no target {target!r}",
                field=f"targets.{target}",
                value=target,
                allowed=", ".join(map(str, targets)),
            )
        found = targets[target].get("rules", [])
    else:
        found = tree.get("rules")
    if not isinstance(found, list):
        raise Rejected("there is no list of rules", field="rules", allowed="`rules:` with a list")
    return found


def problems(
    raw: Sequence[Any],
    *,
    intents: Collection[str],
    metrics: Collection[str],
    safer: Mapping[str, Safer | None],
    baseline: Mapping[str, int],
) -> tuple[list[RuleSettings], list[RuleProblem]]:
    """The rules that are sound, and every problem of the others: each rule is looked at."""
    conditions = Conditions(feature_names(intents, metrics))
    sound: list[RuleSettings] = []
    wrong: list[RuleProblem] = []
    for index, one in enumerate(raw):
        name = str(one.get("id", "?")) if isinstance(one, Mapping) else "?"
        field = f"rules[{index}]"
        try:
            rule = RuleSettings.model_validate(one)
        except ValidationError as error:
            wrong += [_malformed(name, field, found) for found in error.errors()]
            continue
        refused: list[Rejected] = []
        if rule.id in {other.id for other in sound}:
            refused.append(Rejected(f"rule {rule.id} is declared twice", field=f"{field}.id"))
        try:
            _check_safe(rule, field, safer, baseline)
        except Rejected as error:
            refused.append(error)
        try:
            conditions.compile(rule.id, rule.when, field=f"{field}.when")
        except Rejected as error:
            refused.append(error)
        wrong += [
            RuleProblem(
                rule=name,
                field=error.field or field,
                detail=error.detail,
                allowed="" if error.allowed is None else str(error.allowed),
            )
            for error in refused
        ]
        if not refused:
            sound.append(rule)
    return sound, wrong


def _malformed(rule: str, field: str, error: ErrorDetails) -> RuleProblem:
    """One error of a rule's own fields, with near matches for a name that is none."""
    names = [known.alias or name for name, known in RuleSettings.model_fields.items()]
    where = ".".join((field, *(str(part) for part in error["loc"])))
    if error["type"] == "missing":
        return RuleProblem(rule=rule, field=where, detail="is missing")
    if error["type"] != "extra_forbidden":
        return RuleProblem(rule=rule, field=where, detail=f"{error['msg']}: {error['input']!r:.80}")
    near = difflib.get_close_matches(str(error["loc"][-1]), names, n=3)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    allowed = "" if near else ", ".join(names)
    return RuleProblem(rule=rule, field=where, detail=f"unknown setting{hint}", allowed=allowed)


def _check_safe(
    rule: RuleSettings, field: str, safer: Mapping[str, Safer | None], baseline: Mapping[str, int]
) -> None:
    """As ``check_emergencies``, for a rule in its place in the file."""
    try:
        check_emergencies([rule], safer=safer, baseline=baseline)
    except Rejected as error:
        raise Rejected(
            error.detail, field=f"{field}.propose", value=error.value, allowed=error.allowed
        ) from error

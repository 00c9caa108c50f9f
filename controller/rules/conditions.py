"""CEL conditions: the features they may name, type-checked compilation, three-valued answers.

Each feature is a CEL variable of type double under its dotted name, so the checker itself refuses
what does not exist. A variable that is absent at evaluation makes the answer UNKNOWN, unless the
condition is decided without it (``true || missing > 1.0`` is true).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, NoReturn

from cel_expr_python import cel

from controller.rules.features import FEATURES, RATE
from signals.errors import Rejected

TARGET: Final = "target"
NEAR_MATCHES: Final = 3

_POSITION = re.compile(r"<input>:(\d+):(\d+): (.*)")
_UNDECLARED = re.compile(r"undeclared reference to '([^']+)'")
_NAMES = re.compile(r"[a-z_][a-z0-9_]*(?:\.[a-z_][a-z0-9_]*)+")
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")


def feature_names(intents: Iterable[str], metrics: Iterable[str]) -> tuple[str, ...]:
    """Every name a condition may use, sorted: ``<intent>.<feature>`` and ``target.<feature>``.

    >>> feature_names(["live"], ["thumbs"])[-1]
    'target.waiting'
    """
    below = (*FEATURES, *(f"{metric}{RATE}" for metric in metrics))
    return tuple(sorted(f"{owner}.{name}" for owner in {*intents, TARGET} for name in below))


class Condition:
    """A compiled condition. ``reads``: the features it names, sorted."""

    def __init__(self, program: Any, reads: tuple[str, ...]) -> None:
        self._program = program
        self.reads = reads

    def truth(self, features: Mapping[str, float]) -> Literal["true", "false", "unknown"]:
        """The answer for these features; ``unknown`` when it hangs on a missing one."""
        value = self._program.eval(data={n: features[n] for n in self.reads if n in features})
        if value.type() != cel.Type.BOOL:
            return "unknown"
        return "true" if value.value() else "false"


class Conditions:
    """Compiles conditions over one set of feature names."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)
        self._env = cel.NewEnv(variables=dict.fromkeys(sorted(self._names), cel.Type.DOUBLE))

    def compile(self, rule_id: str, text: str, *, field: str) -> Condition:
        """Raises ``Rejected`` naming the rule, the position, what is wrong, and near matches."""
        try:
            program = self._env.compile(text)
        except (RuntimeError, ValueError) as error:
            self._refuse(rule_id, text, field, str(error))
        if program.return_type() != cel.Type.BOOL:
            kind = program.return_type().name().lower()
            raise Rejected(
                f"rule {rule_id}: the condition is a {kind}, not true or false",
                field=field,
                value=text,
                allowed="a comparison, e.g. live.attainment < 0.9",
            )
        reads = tuple(sorted(set(_NAMES.findall(_QUOTED.sub("", text))) & self._names))
        if not reads:
            raise Rejected(
                f"rule {rule_id}: the condition names no feature", field=field, value=text
            )
        return Condition(program, reads)

    def _refuse(self, rule_id: str, text: str, field: str, error: str) -> NoReturn:
        found = _POSITION.search(error)
        line, column, detail = found.groups() if found else ("1", "1", error)
        raise Rejected(
            f"rule {rule_id}, line {line} column {column}: {detail}{self._hint(detail)}",
            field=field,
            value=text,
            allowed=self._near(detail) or None,
        )

    def _hint(self, detail: str) -> str:
        if "no matching overload" in detail and "int" in detail:
            return "; features are doubles: write 1.0, not 1"
        near = self._near(detail)
        return f"; did you mean {near}?" if near else ""

    def _near(self, detail: str) -> str:
        unknown = _UNDECLARED.search(detail)
        if unknown is None:
            return ""
        return ", ".join(
            difflib.get_close_matches(unknown.group(1), sorted(self._names), n=NEAR_MATCHES)
        )

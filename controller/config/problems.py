"""What is wrong with a configuration: every problem at once, each with path, value and range."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from controller.config import tree
from signals.errors import Rejected


class Problem(Struct, frozen=True, kw_only=True):
    """One refused setting. ``source`` is the file or the environment variable it came from."""

    path: str
    value: object
    detail: str
    allowed: str = ""
    source: str = ""

    def line(self) -> str:
        """``serve.port = 0: must be at least 1 (allowed: 1..65535 port) [trimtab.yaml]``."""
        allowed = f" (allowed: {self.allowed})" if self.allowed else ""
        source = f" [{self.source}]" if self.source else ""
        return f"{self.path}{_shown(self.value)}: {self.detail}{allowed}{source}"


class BadSettings(Rejected):
    """A configuration that is refused as a whole; ``problems`` has every reason."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        lines = "\n".join(f"  {problem.line()}" for problem in self.problems)
        count = "1 setting is" if len(self.problems) == 1 else f"{len(self.problems)} settings are"
        first = self.problems[0]
        super().__init__(
            f"{count} refused:\n{lines}",
            field=first.path,
            value=first.value,
            allowed=first.allowed or None,
        )


def from_validation(
    error: ValidationError, root: type[BaseModel], sources: Mapping[str, str], default_source: str
) -> BadSettings:
    """Every error of a validation, in our words; ``sources`` names where some paths came from."""
    problems = [_problem(details, root) for details in error.errors()]
    return BadSettings(
        [
            Problem(
                path=found.path,
                value=found.value,
                detail=found.detail,
                allowed=found.allowed,
                source=sources.get(found.path, default_source),
            )
            for found in problems
        ]
    )


def _problem(error: ErrorDetails, root: type[BaseModel]) -> Problem:
    path = tuple(part for part in error["loc"] if part != "[key]")
    if error["type"] == "extra_forbidden":
        return _unknown(path, error["input"], root)
    if "[key]" in error["loc"]:
        pattern = str(error.get("ctx", {}).get("pattern", ""))
        return Problem(path=tree.dotted(path), value=path[-1], detail="is no name", allowed=pattern)
    field = tree.field_at(root, path)
    allowed = tree.allowed(field) if field is not None else ""
    detail = "is missing" if error["type"] == "missing" else _detail(error["msg"])
    word = (
        {True: "on", False: "off"}.get(error["input"]) if error["type"] == "literal_error" else ""
    )
    if word and word in allowed.split(", "):
        detail = (
            f'write "{word}" in quotes: without them it is {str(error["input"]).lower()} in YAML'
        )
    return Problem(
        path=tree.dotted(path) or "settings", value=error["input"], detail=detail, allowed=allowed
    )


def _unknown(path: tree.Path, value: object, root: type[BaseModel]) -> Problem:
    section = tree.model_at(root, path[:-1])
    known = list(tree.names(section)) if section is not None else []
    near = difflib.get_close_matches(str(path[-1]), known, n=3, cutoff=0.6)
    return Problem(
        path=tree.dotted(path),
        value=value,
        detail=f"unknown setting; did you mean {' or '.join(near)}?" if near else "unknown setting",
        allowed="" if near else ", ".join(known),
    )


def _detail(message: str) -> str:
    for prefix in ("Value error, ", "Input should be ", "Input "):
        if message.startswith(prefix):
            rest = message.removeprefix(prefix)
            return rest if prefix == "Value error, " else f"must be {rest}"
    return message


def _shown(value: Any) -> str:
    if isinstance(value, (Mapping, BaseModel)):
        return ""
    text = repr(value)
    return f" = {text if len(text) <= 80 else text[:77] + '...'}"

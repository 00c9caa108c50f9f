"""Reads settings: ``trimtab.yaml``, then environment variables over it, then validation.

``TRIMTAB_SERVE__PORT=9000`` sets ``serve.port``; ``TRIMTAB_STATE_DIR`` sets ``state_dir``. A value
is read as YAML, so lists and numbers can be given. A variable that contains ``__`` and names no
setting is refused like a misspelt line in the file; other ``TRIMTAB_`` variables (``TRIMTAB_URL``,
``TRIMTAB_KEY_FILE``, ``TRIMTAB_CACHE``, …) belong to the command line and the model cache.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from controller.config.problems import BadSettings, from_validation
from controller.config.tree import dotted
from controller.settings import Settings
from signals.errors import Rejected

DEFAULT_FILE = Path("trimtab.yaml")
PREFIX = "TRIMTAB_"
RULES = ".rules"
NO_YAML = (yaml.YAMLError, ValueError, TypeError, AttributeError, RecursionError)
"""What PyYAML raises: its own, and whatever a value that it can't make, or a name, made it raise:
a date with a thirteenth month, a list as a name, ``{{ x }}``, a thousand brackets."""


def load(path: Path | None, env: Mapping[str, str]) -> Settings:
    """The settings of a file and an environment.

    ``path`` None means ``trimtab.yaml`` in the working directory, or no file when there is none.
    Raises ``BadSettings`` with every problem, ``Rejected`` when the file cannot be read.
    """
    chosen = path or (DEFAULT_FILE if DEFAULT_FILE.exists() else None)
    tree = read_tree(chosen) if chosen is not None else {}
    sources = overlay(tree, env)
    return validate(tree, sources=sources, source=str(chosen or "defaults"))


def validate(
    tree: Mapping[str, Any], *, sources: Mapping[str, str] | None = None, source: str = ""
) -> Settings:
    """Settings from plain values. Raises ``BadSettings`` with every problem."""
    try:
        return Settings.model_validate(tree)
    except ValidationError as error:
        raise from_validation(error, Settings, sources or {}, source) from error


def overlay(tree: dict[str, Any], env: Mapping[str, str]) -> dict[str, str]:
    """Write the environment's settings over ``tree``; returns path -> variable for each."""
    sources: dict[str, str] = {}
    for variable in sorted(env):
        path = _path_of(variable)
        if path is None:
            continue
        for made in _put(tree, path, _value(variable, env[variable]), variable):
            sources[dotted(made)] = variable
    return sources


def _path_of(variable: str) -> tuple[str, ...] | None:
    if not variable.startswith(PREFIX):
        return None
    path = tuple(variable.removeprefix(PREFIX).lower().split("__"))
    return path if len(path) > 1 or path[0] in Settings.model_fields else None


def _put(
    tree: dict[str, Any], path: tuple[str, ...], value: object, variable: str
) -> list[tuple[str, ...]]:
    """Write one value; returns the paths that are there only because of it."""
    here, made = tree, []
    for depth, part in enumerate(path[:-1], 1):
        if part not in here:
            here[part] = {}
            made.append(path[:depth])
        here = here[part]
        if not isinstance(here, dict):
            raise Rejected(f"{variable} names a setting below {part}, a value", field=part)
    here[path[-1]] = value
    return [*made, path]


def _value(variable: str, text: str) -> object:
    try:
        return yaml.safe_load(text)
    except NO_YAML as error:
        raise Rejected(f"{variable} is not a YAML value: {text!r}", field=variable) from error


def read_tree(path: Path) -> dict[str, Any]:
    """A file's plain values, not validated. Raises ``Rejected`` when it is no YAML of sections."""
    try:
        found = yaml.load(path.read_text("utf-8"), Loader=_Strict)
    except OSError as error:
        raise Rejected(f"{path} cannot be read: {error.strerror}", field=str(path)) from error
    except NO_YAML as error:
        raise Rejected(f"{path} is not YAML: {error}", field=str(path)) from error
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise Rejected(f"{path} must hold sections, e.g. `serve:`", field=str(path))
    return found


def told(error: Rejected) -> str:
    """Why a file is refused, as may be written down for ever: of values only those of rules.

    Any other may be a password that somebody put where none belongs.
    """
    if isinstance(error, BadSettings):
        return "; ".join(
            one.line() if RULES in one.path else f"{one.path}: {one.detail}"
            for one in error.problems
        )
    cause = error.__cause__
    if isinstance(cause, yaml.MarkedYAMLError) and cause.problem_mark is not None:
        return f"it is not YAML: {cause.problem}, in line {cause.problem_mark.line + 1}"
    return "it is not YAML" if isinstance(cause, NO_YAML) else error.detail


class _Strict(yaml.SafeLoader):
    """Refuses a name that is given twice; plain YAML would silently keep the second."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[object] = set()
        for key, _ in node.value:
            name = self.construct_object(key)
            if name in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{name!r} is given twice", key.start_mark
                )
            seen.add(name)
        return super().construct_mapping(node, deep)

"""The source tree as the house tests see it: which files are ours, and what they import."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("signals", "policies", "engine", "reward_model", "controller", "migrations")
"""What the wheel holds."""
BESIDE = ("benchmarks", "docs", "examples", "tests")
"""What stays in the repository."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def sources(*folders: str) -> list[Path]:
    """Every Python file below the folders, in a stable order."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def name_of(path: Path) -> str:
    """The dotted module name of a file: ``controller/loop.py`` is ``controller.loop``."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def where(path: Path, line: int | None = None) -> str:
    """``controller/loop.py:12``, for messages."""
    place = path.relative_to(ROOT).as_posix()
    return place if line is None else f"{place}:{line}"


@cache
def parsed(path: Path) -> ast.Module:
    """The file's syntax tree."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of the file's syntax tree, outer ones first."""
    return tuple(ast.walk(parsed(path)))


@cache
def functions(path: Path) -> tuple[Function, ...]:
    """Every function and method of a file, nested ones too."""
    return tuple(node for node in nodes(path) if isinstance(node, Function))


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Every absolute module name that a file imports, with its line.

    ``from a import b`` yields both ``a`` and ``a.b``: b may be a module.
    """
    for node in nodes(path):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module, node.lineno
            for alias in node.names:
                yield f"{node.module}.{alias.name}", node.lineno

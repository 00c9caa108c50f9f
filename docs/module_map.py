"""The page that has one line for every module: the first line of its own docstring."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FLOORS = (
    ("Floor 0", ("signals",)),
    ("Floor 1", ("policies",)),
    ("Floor 2", ("engine", "reward_model")),
    ("Floor 3", ("controller",)),
    ("Beside the floors", ("migrations",)),
)

HEAD = """# Every module, one line each

Generated from the modules' docstrings by `make docs`; do not edit by hand. Imports point from
higher floors to lower ones only. [architecture.md](architecture.md) tells how they work together.
"""


def page() -> str:
    """The whole page, lowest floor first."""
    parts = [HEAD]
    for floor, rooms in FLOORS:
        for room in rooms:
            parts += [f"## {floor}: {room}", "", *_room(ROOT / room), ""]
    return "\n".join(parts).rstrip() + "\n"


def _room(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*.py")):
        if path.parent.name == "versions" and path.name != "__init__.py":
            continue
        name = path.relative_to(ROOT).with_suffix("").as_posix().removesuffix("/__init__")
        tree = ast.parse(path.read_text(encoding="utf-8"))
        first = (
            (ast.get_docstring(tree) or "")
            .partition("\n\n")[0]
            .replace("\n", " ")
            .replace("``", "`")
        )
        yield f"- `{name.replace('/', '.')}`: {first}"

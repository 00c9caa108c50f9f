"""The page ``docs/settings.md``, made from the section models; `make docs` writes it."""

from __future__ import annotations

from collections.abc import Iterable

from controller.config.tree import Leaf, leaves
from controller.settings import DEFAULT_METRICS, Settings

HEAD = """# Settings

Generated from the section models by `make docs`; do not edit by hand.

Settings come from `trimtab.yaml` in the working directory (or `--config FILE`), then from the
environment: `TRIMTAB_SERVE__PORT=9000` sets `serve.port`, `TRIMTAB_STATE_DIR` sets `state_dir`.
Anything unknown or out of range is refused at the start, all of it at once; `trimtab check` says so
without starting anything. `<name>` stands for a name of your own: lower-case letters, digits and
underscores, beginning with a letter. A target, an intent and a knob are named that way.
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD, *(_section(name, rows) for name, rows in _sections()), _metrics()]
    return "\n".join(parts)


def _sections() -> Iterable[tuple[str, list[Leaf]]]:
    grouped: dict[str, list[Leaf]] = {}
    for leaf in leaves(Settings):
        head = leaf.path.partition(".")[0]
        grouped.setdefault(head if "." in leaf.path else "general", []).append(leaf)
    return grouped.items()


def _section(name: str, rows: list[Leaf]) -> str:
    table = [
        f"## {name}\n",
        "| setting | default | unit | allowed | why |",
        "|---|---|---|---|---|",
        *(_row(leaf) for leaf in rows),
    ]
    return "\n".join(table) + "\n"


def _row(leaf: Leaf) -> str:
    default = "required" if leaf.default is None else leaf.default or "none"
    allowed = f"{leaf.type}: {leaf.allowed}" if leaf.allowed else leaf.type
    if leaf.type == " or ".join(leaf.allowed.split(", ")):
        allowed = leaf.type
    cells = (f"`{leaf.path}`", default, leaf.unit, allowed, leaf.reason)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _metrics() -> str:
    rows = [
        f"| `{name}` | {m.type} | {m.low:g}..{m.high:g} {m.unit} | {m.direction} |"
        f" {m.attribution_s} s |"
        for name, m in DEFAULT_METRICS.items()
    ]
    head = [
        "## Built-in metrics\n",
        "| name | type | values | better | attribution |",
        "|---|---|---|---|---|",
    ]
    return "\n".join([*head, *rows]) + "\n"

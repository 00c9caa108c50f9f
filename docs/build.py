"""Draws the generated pages of the documentation from the code: ``python -m docs.build``.

==============  =================================================================
rest.md         every route of the control plane, with the role it needs
settings.md     every setting with default, unit, range and reason
cli.md          every command with its arguments and options
modules.md      every module with the first sentence of its docstring
policies.md     the lifecycle and the guardrails, between their markers
how-it-decides  the numbers of two seeded trials, between their markers; its SVG figures
==============  =================================================================
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from controller.config import page as settings_page
from docs import (
    commands,
    deciding_blocks,
    deciding_figures,
    guardrail_table,
    lifecycle_diagram,
    module_map,
    routes,
)

DOCS = Path(__file__).resolve().parent
BLOCK = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def makers() -> dict[Path, Callable[[], str]]:
    """Every generated page, and what makes it as it should read now."""
    marked = {
        "policies.md": {
            "lifecycle": lifecycle_diagram.drawing,
            "guardrails": guardrail_table.drawing,
        },
        "how-it-decides.md": deciding_blocks.BLOCKS,
    }
    return {
        DOCS / "settings.md": settings_page.page,
        DOCS / "cli.md": commands.page,
        DOCS / "rest.md": routes.page,
        DOCS / "modules.md": module_map.page,
        **{DOCS / name: partial(_marked, DOCS / name, blocks) for name, blocks in marked.items()},
        **{DOCS / "figures" / name: draw for name, draw in deciding_figures.FIGURES.items()},
    }


def _marked(path: Path, blocks: Mapping[str, Callable[[], str]]) -> str:
    text = path.read_text(encoding="utf-8")
    return with_blocks(text, {name: make() for name, make in blocks.items()})


def with_blocks(text: str, blocks: dict[str, str]) -> str:
    """The text with each marked block replaced.

    >>> with_blocks("a\\n<!-- generated: x -->\\nold\\n<!-- end -->\\n", {"x": "new"}).split("\\n")
    ['a', '<!-- generated: x -->', 'new', '<!-- end -->', '']
    """
    return BLOCK.sub(lambda found: f"{found[1]}{blocks[found[2]]}\n{found[3]}", text)


def main() -> None:
    """Write the pages that changed, and say which."""
    for path, make in makers().items():
        text = make()
        path.parent.mkdir(exist_ok=True)
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(DOCS.parent)}")


if __name__ == "__main__":
    main()

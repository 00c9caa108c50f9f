"""The life of a policy as a diagram and a table, drawn from the table that the code obeys."""

from __future__ import annotations

from policies.lifecycle import FINAL, MOVES, STATES


def drawing() -> str:
    """A Mermaid state diagram, then the same moves as a table."""
    return "\n".join([*_diagram(), "", *_table()])


def _diagram() -> list[str]:
    arrows = [f"    {before} --> {after}" for before, row in MOVES.items() for after in row]
    ends = [f"    {state} --> [*]" for state in STATES if state in FINAL]
    return ["```mermaid", "stateDiagram-v2", "    [*] --> proposed", *arrows, *ends, "```"]


def _table() -> list[str]:
    rows = [
        f"| `{before}` | {', '.join(f'`{after}`' for after in row) or 'final'} |"
        for before, row in MOVES.items()
    ]
    return ["| a policy that is | may become |", "|---|---|", *rows]

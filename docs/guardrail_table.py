"""Every guardrail, whom it binds and what it asks, drawn from the table that the code obeys."""

from __future__ import annotations

from policies.guardrails import RAILS, Rail


def drawing() -> str:
    """One table: proposals first, then what an approved policy waits for."""
    head = [
        "| guardrail | asked of | asks that | loop | person | emergency |",
        "|---|---|---|---|---|---|",
    ]
    return "\n".join([*head, *(_row(rail) for rail in RAILS)])


def _row(rail: Rail) -> str:
    asks = (rail.check.__doc__ or "").strip().partition("\n\n")[0].rstrip(".")
    does = "denies" if rail.at == "proposal" else "waits"
    cells = [does if who in rail.binds else "–" for who in ("loop", "person", "emergency")]
    words = f"{asks[0].lower()}{' '.join(asks.split())[1:]}"
    when = "a proposal" if rail.at == "proposal" else "a start"
    return f"| `{rail.name}` | {when} | {words} | {' | '.join(cells)} |"

"""The life of a policy, as one table (invariant 6). The diagram in the docs is drawn from it.

A move that is not in the table is a ``Conflict`` and changes nothing; each legal move is one audit
entry in the same transaction. ``reverting`` ends on read-back only: the engine has been *seen*
without the policy. "Provisional" is a field of kept, not a state.
"""

from __future__ import annotations

from typing import Final, Literal

from signals.errors import Conflict

State = Literal[
    "proposed",
    "pending",
    "approved",
    "applying",
    "on_trial",
    "paused",
    "in_force",
    "kept",
    "reverting",
    "reverted",
    "rejected",
    "expired",
    "superseded",
    "failed",
    "not_applicable",
    "observed",
]

MOVES: Final[dict[State, tuple[State, ...]]] = {
    "proposed": (
        "pending",
        "approved",
        "rejected",
        "expired",
        "superseded",
        "not_applicable",
        "observed",
    ),
    "pending": ("approved", "rejected", "expired", "superseded"),
    "approved": ("applying", "expired", "failed", "superseded"),
    "applying": ("on_trial", "in_force", "reverting"),
    "in_force": ("reverting",),
    "on_trial": ("paused", "kept", "reverting"),
    "paused": ("on_trial", "kept", "reverting"),
    "kept": ("reverting", "superseded"),
    "reverting": ("reverted", "expired", "superseded", "failed"),
    "reverted": (),
    "rejected": (),
    "expired": (),
    "superseded": (),
    "failed": (),
    "not_applicable": (),
    "observed": (),
}

STATES: Final[tuple[State, ...]] = tuple(MOVES)
FINAL: Final[frozenset[State]] = frozenset(state for state, after in MOVES.items() if not after)
LAYERED: Final[frozenset[State]] = frozenset({"applying", "on_trial", "paused", "in_force", "kept"})
"""States in which the policy may be part of what the engine has."""
ON_TRIAL: Final[frozenset[State]] = frozenset({"applying", "on_trial", "paused"})


def check_move(policy_id: str, before: State, after: State) -> None:
    """Raise ``Conflict`` unless the table allows the move; names both states and the allowed."""
    allowed = MOVES[before]
    if after not in allowed:
        raise Conflict(
            f"policy {policy_id} is {before}; it cannot become {after}",
            field="state",
            value=after,
            allowed=", ".join(allowed) or f"nothing: {before} is final",
        )

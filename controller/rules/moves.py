"""Where a rule's move leads from a value: a value of its own, or one step of the ladder."""

from __future__ import annotations

from collections.abc import Sequence

from controller.rules.settings import Move


def moved(move: Move, value: int, ladder: Sequence[int]) -> int | None:
    """The value that the move leads to; None at the ladder's end. ``ladder`` rises strictly.

    >>> moved("down", 8, (2, 4, 8, 16)), moved("up", 16, (2, 4, 8, 16)), moved(4, 8, ())
    (4, None, 4)
    """
    if isinstance(move, int):
        return move
    if move == "up":
        return next((v for v in ladder if v > value), None)
    return next((v for v in reversed(ladder) if v < value), None)

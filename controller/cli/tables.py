"""Plain tables and times for terminals; columns are aligned, nothing is coloured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

MICROS = 1_000_000


def table(head: Sequence[str], rows: Iterable[Sequence[object]], *, none: str) -> str:
    """Aligned columns with a head; ``none`` when there are no rows.

    >>> print(table(["id", "state"], [["pol_1", "kept"]], none="nothing"))
    id     state
    pol_1  kept
    """
    cells = [[_text(cell) for cell in row] for row in rows]
    if not cells:
        return none
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    lines = [list(head), *cells]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def when(at_us: int | None) -> str:
    """A time in UTC to the second; a dash when there is none.

    >>> when(0)
    '1970-01-01 00:00:00Z'
    """
    if at_us is None:
        return "-"
    return datetime.fromtimestamp(at_us / MICROS, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def ms(time_us: int | None) -> str:
    """A duration in milliseconds; a dash when there is none."""
    return "-" if time_us is None else f"{time_us / 1000:.1f} ms"


def share(value: float | None) -> str:
    """A share in per cent; a dash when unknown."""
    return "-" if value is None else f"{100 * value:.1f} %"


def figure(value: float | None, unit: str = "") -> str:
    """A figure with three digits; a dash when unknown."""
    return "-" if value is None else f"{value:.3g}{f' {unit}' if unit else ''}"


def _text(cell: object) -> str:
    return "-" if cell is None else str(cell)

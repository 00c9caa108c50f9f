"""Values of a trace's rows, read or refused with line, field, value and what was allowed.

>>> whole("44", line=2, field="GeneratedTokens", at_least=1)
44
"""

from __future__ import annotations

import math

from signals.errors import Rejected


def refused(line: int, field: str, value: object, allowed: str) -> Rejected:
    """What to raise for a value; ``line`` counts from 1, the header included."""
    detail = f"line {line}: {field} {value!r}: {allowed}"
    return Rejected(detail, field=field, value=value, allowed=allowed)


def whole(value: object, *, line: int, field: str, at_least: int = 0) -> int:
    """A whole number (text of one, in a table), at least so large."""
    try:
        number = int(value) if isinstance(value, str | int) else None
    except ValueError:
        number = None
    if number is None or isinstance(value, bool) or number < at_least:
        raise refused(line, field, value, f"a whole number of {at_least} or more")
    return number


def real(text: str, *, line: int, field: str, at_least: float = 0.0) -> float:
    """A finite number, at least so large."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or number < at_least:
        raise refused(line, field, text, f"a finite number of {at_least:g} or more")
    return number


def columns(row: str, names: tuple[str, ...], *, line: int) -> list[str]:
    """The cells of a comma-separated row without quotes, one for each name."""
    cells = [cell.strip() for cell in row.rstrip("\r\n").split(",")]
    if len(cells) != len(names):
        raise refused(line, "row", row.strip(), f"{len(names)} columns: {', '.join(names)}")
    return cells

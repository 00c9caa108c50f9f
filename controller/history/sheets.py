"""CSV that a spreadsheet may open: no cell of ours can begin a formula.

A cell that begins with ``=``, ``+``, ``-``, ``@`` or a control character runs as a formula in
spreadsheets, and reasons are written by anybody who may act. Such a cell gets an apostrophe before
it (OWASP, "CSV Injection"); numbers are written as numbers.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Final

RISKY: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\0")


def sheet_row(cells: Sequence[object]) -> str:
    """One line, RFC 4180.

    >>> sheet_row([1, "=cmd()", None, "a,b"])
    '1,\\'=cmd(),,"a,b"\\r\\n'
    """
    line = io.StringIO()
    csv.writer(line).writerow([_cell(cell) for cell in cells])
    return line.getvalue()


def sheet(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterable[bytes]:
    """A head and rows, line by line, UTF-8."""
    yield sheet_row(head).encode()
    for row in rows:
        yield sheet_row(row).encode()


def _cell(cell: object) -> object:
    if cell is None or isinstance(cell, (int, float)):
        return "" if cell is None else cell
    text = str(cell).replace("\0", "")
    return f"'{text}" if text.startswith(RISKY) else text

"""What the journey says: numbered chapters, plain lines, small tables, one line while waiting."""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Sequence

WIDTH = 92
SAID_WIDTH = 118
QUIET_S = 15.0
"""Between two progress lines where the output is no terminal."""


class Screen:
    """Standard output. Every line starts with the minutes and seconds since ``ready``."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._chapter = 0
        self._progress_s = float("-inf")
        self._open_line = False

    @property
    def elapsed_s(self) -> float:
        """Seconds since ``restart``."""
        return time.monotonic() - self._began_s

    def restart(self) -> None:
        """Count time from now."""
        self._began_s = time.monotonic()

    def chapter(self, title: str) -> None:
        """A numbered heading."""
        self._chapter += 1
        self._end_line()
        print(f"\n{self._chapter}. {title}\n{'─' * WIDTH}", flush=True)

    def say(self, text: str) -> None:
        """One line or several."""
        self._end_line()
        for line in text.splitlines():
            indent = " " * (len(line) - len(line.lstrip()) + 2)
            for piece in textwrap.wrap(line, SAID_WIDTH, subsequent_indent=indent) or [""]:
                print(f"{self._clock()}  {piece}", flush=True)

    def progress(self, text: str) -> None:
        """One line that is overwritten on a terminal, and now and then a line elsewhere."""
        if sys.stdout.isatty():
            print(f"\r{self._clock()}  {text[:WIDTH]:<{WIDTH}}", end="", flush=True)
            self._open_line = True
        elif time.monotonic() - self._progress_s >= QUIET_S:
            self._progress_s = time.monotonic()
            print(f"{self._clock()}  … {text}", flush=True)

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Columns as wide as their widest cell; the first to the left, the others to the right."""
        widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
        for row in (head, ["─" * width for width in widths], *rows):
            cells = [row[0].ljust(widths[0])]
            cells += [cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True)]
            self.say("  " + "   ".join(cells))

    def _clock(self) -> str:
        minutes, seconds = divmod(int(self.elapsed_s), 60)
        return f"{minutes:2d}:{seconds:02d}"

    def _end_line(self) -> None:
        if self._open_line:
            print(flush=True)
            self._open_line = False

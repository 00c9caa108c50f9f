"""Token bytes to text, piece by piece: whole characters only, and nothing of a stop string.

Text that could still become a stop string is held back until it cannot.

>>> stream = TextStream(stop=("END",))
>>> [stream.push(piece) for piece in (b"one E", b"N", b"D two")], stream.stopped
(['one ', '', ''], True)
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence


class TextStream:
    """One answer's text so far. ``stopped``: a stop string was met; it and what follows is cut."""

    def __init__(self, *, stop: Sequence[str] = ()) -> None:
        self.stopped = False
        self._stop = tuple(filter(None, stop))
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._held = ""

    def push(self, piece: bytes) -> str:
        """Take in one token's bytes; return the text that is now certain."""
        return self._advance(self._decoder.decode(piece))

    def flush(self) -> str:
        """The answer ends here: return what was held back."""
        text = self._advance(self._decoder.decode(b"", final=True))
        rest, self._held = self._held, ""
        return text + rest

    def _advance(self, text: str) -> str:
        if self.stopped:
            return ""
        self._held += text
        found = [at for stop in self._stop if (at := self._held.find(stop)) >= 0]
        if found:
            self.stopped = True
            text, self._held = self._held[: min(found)], ""
            return text
        keep = max((_overlap(self._held, stop) for stop in self._stop), default=0)
        certain = len(self._held) - keep
        text, self._held = self._held[:certain], self._held[certain:]
        return text


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of ``text`` that begins ``stop``."""
    longest = min(len(text), len(stop) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(stop[:n])), 0)

"""What of a followed target is kept in the store, and when it is worth writing.

It changes with every block, and only the alarm is worth writing at once; the rest is noted now and
then, so that a restart begins with what was usual.
"""

from __future__ import annotations

import msgspec

from controller.drift.following import DriftState
from controller.drift.settings import DriftSettings
from signals.events import MICROS

_decoder = msgspec.json.Decoder(DriftState)


def drift_note(target: str) -> str:
    """The name of the note."""
    return f"drift:{target}"


def noted_drift(body: str | None) -> DriftState:
    """What a note says; without one nothing is known."""
    return DriftState() if body is None else _decoder.decode(body)


def due_drift(now: DriftState, noted: DriftState, limits: DriftSettings) -> bool:
    """Whether it is to be written: the alarm began or ended, or the note is old."""
    if (now.alarm is None) != (noted.alarm is None):
        return True
    return now.to_us - noted.to_us >= limits.noted_s * MICROS and bool(now.references)

"""``python -m examples.journey``: tells the story, and with ``--exit`` checks it and leaves."""

from __future__ import annotations

import signal
import sys
from types import FrameType

import httpx

from examples.journey.audit_trail import NotAnAuditError
from examples.journey.explaining import UnnoticedError
from examples.journey.options import parse
from examples.journey.programs import GoneError, TooLateError
from examples.journey.rest import RefusedError
from examples.journey.story import tell
from examples.journey.trial_watch import TrialFailedError

FAILURES = (
    GoneError,
    TooLateError,
    RefusedError,
    TrialFailedError,
    UnnoticedError,
    NotAnAuditError,
    httpx.HTTPError,
)


def main() -> int:
    """0: told, and with ``--exit`` derived again; 1: not so, with the reason; 130: stopped."""
    signal.signal(signal.SIGTERM, _stop)
    try:
        return tell(parse())
    except FAILURES as failure:
        print(f"\njourney: {type(failure).__name__}: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\njourney: stopped", file=sys.stderr)
        return 130


def _stop(number: int, frame: FrameType | None) -> None:
    """SIGTERM ends it like Ctrl-C, so that everything it started is stopped too."""
    raise KeyboardInterrupt


sys.exit(main())

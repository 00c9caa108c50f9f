"""What a drift detector is: a small value that takes one residual after another.

Contract of every detector (one suite, ``tests/drift/test_conformance.py``): ``update`` returns the
detector after one more value and changes nothing; the same values give the same detector, bit for
bit; it can be stored as JSON and goes on where it was; a value that is not finite is left out; its
memory has a bound; ``drifted`` is about now, and ends by itself once it has got used to the level.
"""

from __future__ import annotations

from typing import Protocol, Self


class Detector(Protocol):
    """Takes standardised residuals: mean 0 and deviation 1 as long as nothing drifts."""

    @property
    def drifted(self) -> bool:
        """Whether the last values are of another level than those before."""

    def update(self, x: float) -> Self:
        """The detector after one more value."""

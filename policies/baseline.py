"""The baseline: named, versioned settings that a person declared; only a person changes them.

Everything the loop does is a layer above it, so what is left when every layer is gone is this.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from policies.settings import Setting, digest


class Baseline(Struct, frozen=True, kw_only=True):
    """One version. ``settings`` by place; what is not named has the engine's boot value.

    ``version`` counts from 1 per target. ``managed_by`` file: REST may not change it (409).
    """

    target: str
    version: int
    name: str = "baseline"
    settings: dict[str, Setting]
    managed_by: Literal["file", "api"]
    by: str
    reason: str
    from_us: int

    @property
    def digest(self) -> str:
        """12 hex digits of the settings."""
        return digest(self.settings)

    @property
    def words(self) -> str:
        """``baseline@3``, for lines in tables and reasons."""
        return f"{self.name}@{self.version}"

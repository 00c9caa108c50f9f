"""How every room declares a setting: default, range, unit and reason, in one line each.

>>> class Bus(Section):
...     max_batch: int = setting(200, unit="events", reason="one fsync's worth", ge=1, le=10_000)
>>> Bus().max_batch
200
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict


class Section(BaseModel):
    """A room's settings: frozen, and an unknown name is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def setting(default: Any, *, unit: str, reason: str, **limits: Any) -> Any:
    """A field with its unit ("" where it has none) and the reason for its default.

    ``limits`` are pydantic's (``ge``, ``le``, ``gt``, ``lt``, ``min_length``, ``pattern``, …).
    """
    extra: JsonDict = {"unit": unit}
    if callable(default):
        return Field(default_factory=default, description=reason, json_schema_extra=extra, **limits)
    return Field(default, description=reason, json_schema_extra=extra, **limits)

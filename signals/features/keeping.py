"""How long windows of each width are kept, so that none is ever kept in part. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from signals.events import MICROS
from signals.features.model import ATOM_S, FIVE_MINUTES_S, HOUR_S, MINUTE_S
from signals.settings import FeatureSettings

PART_S: Final[Mapping[int, int]] = {
    MINUTE_S: ATOM_S,
    FIVE_MINUTES_S: MINUTE_S,
    HOUR_S: FIVE_MINUTES_S,
}
"""The windows that a wider one is merged from: twelve, five and twelve of them."""

_WHOLE_S: Final = {
    ATOM_S: MINUTE_S,
    MINUTE_S: FIVE_MINUTES_S,
    FIVE_MINUTES_S: HOUR_S,
    HOUR_S: HOUR_S,
}
"""Windows go together that are part of the same wider one."""


def retention_s(width_s: int, settings: FeatureSettings) -> int:
    """How long windows of a width are kept."""
    return {
        ATOM_S: settings.atom_retention_s,
        MINUTE_S: settings.minute_retention_s,
        FIVE_MINUTES_S: settings.five_minute_retention_s,
        HOUR_S: settings.hour_retention_s,
    }[width_s]


def oldest_us(width_s: int, *, watermark_us: int, settings: FeatureSettings) -> int:
    """The start of the first window of a width that is kept, were they all closed."""
    cut_us = max(0, watermark_us - retention_s(width_s, settings) * MICROS)
    return cut_us - cut_us % (_WHOLE_S[width_s] * MICROS)

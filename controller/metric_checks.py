"""Which metric definitions make sense, beyond the bounds of their single fields.

>>> from signals.settings import MetricSettings
>>> check("stars", MetricSettings(type="float", low=1.0, high=5.0))
>>> check("error", MetricSettings())
Traceback (most recent call last):
signals.errors.Rejected: error_rate is a feature of the engine already; choose another name
"""

from __future__ import annotations

import re
from typing import Final, get_args

from controller.rules.features import FEATURES, RATE
from signals.errors import Rejected
from signals.settings import MetricSettings, Name

NAME: Final = re.compile(get_args(Name)[1].pattern)
TAKEN: Final = frozenset(one.removesuffix(RATE) for one in FEATURES if one.endswith(RATE))
"""A metric's feature is ``<name>_rate``; one of these would hide an engine's."""


def check(name: str, metric: MetricSettings) -> None:
    """Raise ``Rejected`` with the field, its value and what is allowed."""
    if not NAME.fullmatch(name):
        raise Rejected(f"{name!r} is no name", field="name", value=name, allowed=NAME.pattern)
    if name in TAKEN:
        raise Rejected(
            f"{name}{RATE} is a feature of the engine already; choose another name",
            field="name",
            value=name,
        )
    if metric.low >= metric.high:
        raise Rejected(
            f"low = {metric.low} must be below high = {metric.high}",
            field="low",
            value=metric.low,
            allowed=f"below {metric.high:g}",
        )
    if metric.owner and not NAME.fullmatch(metric.owner):
        raise Rejected(
            f"owner = {metric.owner!r} is no team's name",
            field="owner",
            value=metric.owner,
            allowed=NAME.pattern,
        )

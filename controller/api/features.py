"""``/v1/features``: what happened in each window, by target; open ones too, corrected ones anew."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from controller.api.access import Wired
from controller.api.answers import Answer
from controller.api.ports import Services
from controller.api.problems import documented
from controller.api.target_views import declared
from controller.figures import By, Group, counted, figures, grouped, metrics
from controller.rating import Terms, terms
from controller.settings import Settings
from signals.errors import Rejected
from signals.events import MICROS
from signals.features.model import FIVE_MINUTES_S, HOUR_S, MINUTE_S
from signals.features.windows import start_of

router = APIRouter(prefix="/v1/features", tags=["features"])

Width = Literal["5s", "1m", "5m", "1h"]
WIDTHS: dict[Width, int] = {"5s": 5, "1m": MINUTE_S, "5m": FIVE_MINUTES_S, "1h": HOUR_S}
MOMENT = "µs since the epoch"
SHOWN = 20
"""Windows of time that are shown when nobody says since when."""
AT_ONCE = 32
"""Windows of time that are read at once."""


class Asked(BaseModel):
    """Which windows, and how they are shown."""

    target: str
    width: Width = "1m"
    intent: str | None = None
    by: By = Field(default="window", description="each alone, or merged over replicas and settings")
    from_us: int | None = Field(default=None, alias="from", ge=0, le=2**62, description=MOMENT)
    to_us: int | None = Field(default=None, alias="to", ge=0, le=2**62, description=MOMENT)
    after: str | None = Field(default=None, description="a page's `next`")
    limit: int = Field(default=200, ge=1, le=1000, description="rows at most")

    @property
    def width_s(self) -> int:
        """The windows' width."""
        return WIDTHS[self.width]


@router.get("", responses=documented(404, 422))
def listed(asked: Annotated[Asked, Query()], services: Wired) -> Response:
    """Windows of a target that start in [from, to), by time, with counts and figures.

    Without ``from``, the last 20 of that width. A figure without evidence is null. ``revision`` is
    0 while a window is open, 1 when it has closed, and one more with each correction; of windows
    that are shown merged it is the sum. Per business metric: ``rate`` of the requests that arrived
    in the window, once its attribution window has closed for them; how many these are, how many
    are open still, and whose values they have.
    """
    target, now_us = asked.target, services.clock()
    declared(services, target)
    span = _span(services.settings, asked, now_us)
    start_us, passed = _place(asked.after, span.start)
    groups = _groups(services, asked, range(start_us, span.stop))
    found = list(islice(groups, passed, passed + asked.limit))
    by, watermark_us = terms(services.store, now_us=now_us), services.features.watermark_us(target)
    return Answer(
        {
            "target": target,
            "width_s": asked.width_s,
            "watermark_us": watermark_us,
            "items": [_shown(group, asked.width_s, by, watermark_us) for group in found],
            "next": _next(found, start_us, passed) if len(found) == asked.limit else None,
        }
    )


def _span(settings: Settings, asked: Asked, now_us: int) -> range:
    """The stretch of time asked for, no longer than windows of this width are kept."""
    features, width_s = settings.features, asked.width_s
    kept_s: dict[Width, int] = {
        "5s": features.atom_retention_s,
        "1m": features.minute_retention_s,
        "5m": features.five_minute_retention_s,
        "1h": features.hour_retention_s,
    }
    start, stop = asked.from_us, asked.to_us
    if start is not None and stop is not None and start >= stop:
        raise Rejected("from must be before to", field="from", value=start, allowed=f"< {stop}")
    stop = now_us + width_s * MICROS if stop is None else stop
    start = start_of(now_us - SHOWN * width_s * MICROS, width_s) if start is None else start
    oldest = start_of(now_us - (kept_s[asked.width] + HOUR_S) * MICROS, width_s)
    return range(max(start, oldest), min(stop, now_us + HOUR_S * MICROS))


def _groups(services: Services, asked: Asked, span: range) -> Iterator[Group]:
    """By time, read a stretch at once."""
    step_us = AT_ONCE * asked.width_s * MICROS
    for start_us in range(span.start, span.stop, step_us):
        windows = services.features.windows(
            asked.target,
            from_us=start_us,
            to_us=min(start_us + step_us, span.stop),
            width_s=asked.width_s,
        )
        wanted = [each for each in windows if asked.intent in (None, each.key.intent)]
        yield from grouped(wanted, asked.by)


def _place(after: str | None, start_us: int) -> tuple[int, int]:
    """Where a page begins: a window's start, and how many of those that start then are behind."""
    if after is None:
        return start_us, 0
    at, _, passed = after.partition(".")
    if not (at.isascii() and at.isdigit() and passed.isascii() and passed.isdigit()):
        raise Rejected("no place in a list", field="after", value=after, allowed="a page's `next`")
    return max(start_us, int(at)), int(passed)


def _next(found: list[Group], start_us: int, passed: int) -> str:
    last_us = found[-1].start_us
    same = sum(group.start_us == last_us for group in found)
    return f"{last_us}.{same + (passed if last_us == start_us else 0)}"


def _shown(group: Group, width_s: int, by: Terms, watermark_us: int) -> dict[str, Any]:
    counts = msgspec.to_builtins(counted(group))
    for name in ("ttft", "tpot", "e2e"):
        counts[name].pop("sketch")
    return {
        "start_us": group.start_us,
        "width_s": width_s,
        "intent": group.intent,
        "replica": group.replica,
        "digest": group.digest,
        "trial": group.trial,
        "block": group.block,
        "revision": sum(each.revision for each in group.windows),
        "corrected": any(each.revision > 1 for each in group.windows),
        "closed": all(each.closed for each in group.windows),
        "incomplete": any(each.incomplete for each in group.windows),
        "counts": counts,
        "figures": figures(group),
        "metrics": metrics(group, by, watermark_us=watermark_us, width_s=width_s),
    }

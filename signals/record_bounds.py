"""Bounds of what an engine's records carry, where their types do not say them."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from signals.errors import Rejected
from signals.events import MICROS, Arrived, Finished, NamedRequest, Second
from signals.rules import MAX_ID, Rules, check_id, in_time, target_of_request

MAX_INTENTS: Final = 64
MAX_SECOND_S: Final = 3600
MAX_COUNT: Final = 2**53
"""What JSON numbers carry exactly everywhere; sums of many still fit the store's 64 bits."""


def check_counts(record: Struct, path: str) -> None:
    """Every whole number at the top of ``record`` is a count. Raises ``Rejected``."""
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if type(value) is int and not 0 <= value <= MAX_COUNT:
            raise Rejected("no count", field=f"{path}.{name}", value=value, allowed="0..2^53")


def check_names(record: Struct, names: tuple[str, ...], path: str) -> None:
    """These texts are short enough to be names. Raises ``Rejected``."""
    for name in names:
        if len(getattr(record, name)) > MAX_ID:
            field = f"{path}.{name.rstrip('_')}"
            raise Rejected("no name", field=field, allowed=f"{MAX_ID} characters at most")


def check_request(
    request: Arrived | Finished | NamedRequest, target: str, rules: Rules, path: str
) -> None:
    """A request of this target that arrived in time. Raises ``Rejected``."""
    if target_of_request(request.request_id) != target:
        raise Rejected(
            "not an id of this engine's",
            field=f"{path}.request_id",
            value=request.request_id[:MAX_ID],
            allowed=f"{target}.<uuid7>",
        )
    in_time(request.arrival_us, rules, field=f"{path}.arrival_us")
    check_names(request, ("intent", "class_"), path)
    if request.external_id is not None:
        check_id(request.external_id, f"{path}.external_id")
    if request.session_id is not None:
        check_id(request.session_id, f"{path}.session_id")


def check_second(second: Second) -> None:
    """A span, and a bounded number of intents. Raises ``Rejected``."""
    if not 0 <= second.to_us - second.from_us <= MAX_SECOND_S * MICROS:
        raise Rejected("not a span", field="data.from_us", allowed=f"{MAX_SECOND_S} s at most")
    if len(second.intents) > MAX_INTENTS:
        raise Rejected(
            "too many intents",
            field="data.intents",
            value=len(second.intents),
            allowed=MAX_INTENTS,
        )

"""Bounds of what an engine's records carry, where their types do not say them."""

from __future__ import annotations

from collections.abc import Iterable, Sized
from typing import Final

from msgspec import Struct

from signals.errors import Rejected
from signals.events import MICROS, Arrived, Finished, NamedRequest, Second, Started
from signals.rules import MAX_ID, Rules, check_id, in_time, target_of_request

MAX_INTENTS: Final = 64
MAX_KNOBS: Final = 64
MAX_POLICIES: Final = 64
MAX_CURVE: Final = 1000
MAX_SECOND_S: Final = 3600
MAX_TOKENS: Final = 2**31
MAX_KV: Final = 2**31
MAX_STEP_SUM: Final = 2**63 - 1
MAX_COUNT: Final = 2**53
"""What JSON numbers carry exactly everywhere; sums of many still fit the store's 64 bits."""


def check_counts(record: Struct, path: str) -> None:
    """Every whole number at the top of ``record`` is a count. Raises ``Rejected``."""
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if type(value) is int and not 0 <= value <= MAX_COUNT:
            raise Rejected("no count", field=f"{path}.{name}", allowed="0..2^53")


def check_many(many: Sized, most: int, path: str) -> None:
    """Not more than ``most`` of them. Raises ``Rejected``."""
    if len(many) > most:
        raise Rejected(f"{len(many)} of them", field=path, value=len(many), allowed=most)


def check_texts(texts: Iterable[str], path: str) -> None:
    """All are short enough to be names. Raises ``Rejected``."""
    if any(len(text) > MAX_ID for text in texts):
        raise Rejected("no name", field=path, allowed=f"{MAX_ID} characters at most")


def check_tokens(request: Arrived | Finished) -> None:
    """Token counts from which a deadline can be reckoned. Raises ``Rejected``."""
    for name in ("prompt_tokens", "max_tokens", "output_tokens"):
        if getattr(request, name, 0) > MAX_TOKENS:
            raise Rejected("too many tokens", field=f"data.{name}", allowed="0..2^31")


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
    """A span, and figures that can be added up. Raises ``Rejected``."""
    if not 0 <= second.to_us - second.from_us <= MAX_SECOND_S * MICROS:
        raise Rejected("not a span", field="data.from_us", allowed=f"{MAX_SECOND_S} s at most")
    check_many(second.intents, MAX_INTENTS, "data.intents")
    check_texts(second.intents, "data.intents")
    for load in second.intents.values():
        check_counts(load, "data.intents[...]")
    for name in second.steps.__struct_fields__:
        if not 0 <= getattr(second.steps, name) <= MAX_STEP_SUM:
            raise Rejected("no sum", field=f"data.steps.{name}", allowed="0..2^63-1")
    check_many(second.knobs, MAX_KNOBS, "data.knobs")
    check_texts(second.knobs, "data.knobs")
    if any(abs(value) > MAX_COUNT for value in second.knobs.values()):
        raise Rejected("no value of a knob", field="data.knobs", allowed="-2^53..2^53")


def check_started(started: Started) -> None:
    """A curve of counts, and sizes of a layout. Raises ``Rejected``."""
    check_many(started.curve, MAX_CURVE, "data.curve")
    for point in started.curve:
        check_counts(point, "data.curve[...]")
    if started.kv is not None:
        check_counts(started.kv, "data.kv")
        for name in started.kv.__struct_fields__:
            if not 0 < getattr(started.kv, name) <= MAX_KV:
                raise Rejected("no size", field=f"data.kv.{name}", allowed=f"1..{MAX_KV}")

"""The shape of an intent's recent requests, as the plant model and trial plans need it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controller.judge.sessions import session_of
from controller.state import Traffic
from signals.events import MICROS
from signals.features.model import RequestRow, SecondRow

MIN_ENDED = 10
"""Of the latest requests, so that their output tokens are known."""
ASSUMED_DRAIN_S = 1.0


def deadlines(requests: Mapping[str, Sequence[RequestRow]]) -> dict[str, float]:
    """Per intent, the 95th percentile of arrival-to-deadline in seconds."""
    found = {}
    for intent, rows in requests.items():
        spans = [row.deadline_us - row.arrival_us for row in rows if row.deadline_us is not None]
        if spans:
            found[intent] = _p95(spans) / MICROS
    return found


def drain(requests: Mapping[str, Sequence[RequestRow]]) -> float:
    """95th percentile of first to last token in seconds: what a running request still needs."""
    spans = [
        row.finished_us - row.arrival_us - row.ttft_us
        for rows in requests.values()
        for row in rows
        if row.finished_us is not None and row.ttft_us is not None
    ]
    return max(0.0, _p95(spans) / MICROS) if spans else ASSUMED_DRAIN_S


def traffic(
    requests: Mapping[str, Sequence[RequestRow]], seconds: Sequence[SecondRow]
) -> dict[str, Traffic]:
    """By intent. Where a queue is so long that none of the latest has ended, what each may take."""
    found = {}
    for intent, rows in requests.items():
        tokens = [row.output_tokens for row in rows if row.status == "ok" and row.output_tokens > 0]
        if len(tokens) < MIN_ENDED:
            tokens = [row.output_tokens or row.max_tokens for row in rows]
        if not tokens or not sum(tokens):
            continue
        output = sum(tokens) / len(tokens)
        spread = sum((one - output) ** 2 for one in tokens) / len(tokens)
        waited = sum(second.waiting.get(intent, 0) > 0 for second in seconds)
        found[intent] = Traffic(
            prompt_tokens=sum(row.prompt_tokens for row in rows) / len(rows),
            output_tokens=output,
            output_cv2=spread / output**2,
            waiting_share=waited / len(seconds) if seconds else 0.0,
        )
    return found


def with_session(requests: Mapping[str, Sequence[RequestRow]]) -> dict[str, float]:
    """By intent, the share of its requests that name their session."""
    return {
        intent: sum(row.session_id is not None for row in rows) / len(rows)
        for intent, rows in requests.items()
        if rows
    }


def new_sessions_per_s(requests: Mapping[str, Sequence[RequestRow]]) -> dict[str, float]:
    """By intent: of the later half of the time that the rows are of, the sessions not in the
    earlier.

    One that was away for longer counts as new, so that it is rather too many than too few.
    """
    found = {}
    for intent, rows in requests.items():
        times_us = [row.arrival_us for row in rows]
        first_us, last_us = min(times_us, default=0), max(times_us, default=0)
        middle_us = (first_us + last_us) // 2
        if last_us > middle_us:
            before = {session_of(row) for row in rows if row.arrival_us <= middle_us}
            after = {session_of(row) for row in rows if row.arrival_us > middle_us}
            found[intent] = len(after - before) * MICROS / (last_us - middle_us)
    return found


def context(requests: Mapping[str, Sequence[RequestRow]], share: float) -> float:
    """Prompt and answer of the longer ones, in tokens; what an unfinished one may still write."""
    lengths = sorted(
        row.prompt_tokens + (row.max_tokens if row.finished_us is None else row.output_tokens)
        for rows in requests.values()
        for row in rows
    )
    return float(lengths[min(len(lengths) - 1, int(share * len(lengths)))]) if lengths else 0.0


def _p95(values: Sequence[int]) -> int:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, (95 * len(ordered)) // 100)]

"""The conversation hour of Azure's LLM inference trace of 2023, as arrivals.

Rows are ``TIMESTAMP,ContextTokens,GeneratedTokens``, one a request, by time. Arrivals count from
the first row. The trace knows neither sessions nor prompts: no prefix is shared.

>>> from engine.simulated.arrivals.kinds import LIVE, always
>>> rows = ["TIMESTAMP,ContextTokens,GeneratedTokens",
...         "2023-11-16 18:15:46.6805900,374,44", "2023-11-16 18:15:50.9951690,396,109"]
>>> [(o.arrival_s, o.prompt_tokens, o.output_tokens) for o in conversations(rows, always(LIVE))]
[(0.0, 374, 44), (4.314579, 396, 109)]

Source: AzurePublicDataset, "Azure LLM inference dataset 2023" (CC BY: name it beside figures).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from engine.simulated.arrivals.kinds import Assign
from engine.simulated.arrivals.rows import columns, refused, whole
from engine.simulated.offered import Arrivals, Offered

HEADER = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")


def conversations(rows: Iterable[str], assign: Assign) -> Arrivals:
    """The requests of an opened trace. Raises Rejected at the first row that it cannot read."""
    began: datetime | None = None
    before_s = 0.0
    for line, row in enumerate(rows, 1):
        cells = columns(row, HEADER, line=line)
        if line == 1:
            if tuple(cells) != HEADER:
                raise refused(line, "header", row.strip(), ",".join(HEADER))
            continue
        at = _moment(cells[0], line)
        began = began or at
        arrival_s = (at - began).total_seconds()
        if arrival_s < before_s:
            raise refused(line, "TIMESTAMP", cells[0], "not before the row above")
        before_s = arrival_s
        prompt = whole(cells[1], line=line, field="ContextTokens", at_least=1)
        output = whole(cells[2], line=line, field="GeneratedTokens", at_least=1)
        kind = assign(prompt, output)
        yield Offered(
            arrival_s=arrival_s,
            intent=kind.intent,
            class_=kind.class_,
            prompt_tokens=prompt,
            output_tokens=output,
        )


def _moment(text: str, line: int) -> datetime:
    try:
        # UTC, and all in one hour: only differences count.
        at = datetime.fromisoformat(text)
    except ValueError:
        raise refused(line, "TIMESTAMP", text, "YYYY-MM-DD hh:mm:ss.fffffff") from None
    if at.tzinfo is not None:
        raise refused(line, "TIMESTAMP", text, "a time without a zone")
    return at

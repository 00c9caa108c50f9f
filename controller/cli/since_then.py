"""``trimtab status TARGET --since 30m``: was it Trimtab? Yes, no, or nobody can say; and what."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from controller.cli.client import Client
from controller.cli.settings import difference, differs, through, unknown
from controller.cli.tables import share, table, when
from signals.events import MICROS

SPAN_US: Final = 300 * MICROS
"""Attainment is of five minutes: before the time that is asked about, and now."""
NOT_SETTINGS: Final = frozenset({"settings", "unknown"})
MOST: Final = 50

ANSWERS: Final = {
    "yes": "YES, settings changed since then",
    "no": "NO, every replica has kept the settings that it had",
    "unknown": "UNKNOWN, no change is on record, but of some time nobody can say",
}


def look(client: Client, target: str, since: str) -> dict[str, Any]:
    """Everything that the answer is made of."""
    found = difference(client, target, since)
    from_us, now_us = found["from_us"], found["to_us"]
    span = {"from": from_us, "to": now_us + 1}
    happened = client.get(f"/v1/targets/{target}/timeline", limit=MOST, **span)
    return {
        **found,
        "answer": found["changes"]["answer"],
        "happened": [x for x in happened["items"] if x["kind"] not in NOT_SETTINGS],
        "attainment": {
            "then": _attainment(client, target, from_us - SPAN_US, from_us),
            "now": _attainment(client, target, now_us - SPAN_US, now_us),
        },
    }


def words(found: Any) -> str:
    """The answer first, then what changed, then what else happened, then how requests fared."""
    since = when(found["from_us"])
    told = [f"{found['target']} since {since}: was it Trimtab? {ANSWERS[found['answer']]}"]
    told += [f"  {line}" for line in through(found)]
    told.append("\nthen and now")
    told += [f"  {line}" for line in differs(found)]
    rows = [(when(x["at_us"]), x["kind"], x["actor"], x["words"]) for x in found["happened"]]
    none = "  nobody decided anything about it"
    told += ["\nwhat happened", table(["when", "kind", "who", "what"], rows, none=none)]
    told += ["\nattainment, of five minutes", _fared(found["attainment"])]
    holes = [unknown(one) for one in found["changes"]["unknown"]]
    if holes and found["answer"] == "unknown":
        told.append(f"\nnobody can say: {'; '.join(holes)}")
    return "\n".join(told)


def _attainment(client: Client, target: str, from_us: int, to_us: int) -> dict[str, float | None]:
    """By intent; None where no request was decided."""
    span = {"from": max(0, from_us), "to": max(1, to_us)}
    found = client.get("/v1/features", target=target, width="1m", by="intent", limit=1000, **span)
    intents = sorted({one["intent"] for one in found["items"]})
    return {
        intent: _share(one["counts"] for one in found["items"] if one["intent"] == intent)
        for intent in intents
    }


def _share(counts: Iterable[Any]) -> float | None:
    good = judged = 0
    for one in counts:
        good, judged = good + one["good"], judged + one["judged"]
    return good / judged if judged else None


def _fared(attainment: Any) -> str:
    intents = sorted(attainment["then"].keys() | attainment["now"].keys())
    rows = [
        (name, share(attainment["then"].get(name)), share(attainment["now"].get(name)))
        for name in intents
    ]
    return table(["intent", "then", "now"], rows, none="no request was decided")

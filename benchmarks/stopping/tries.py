"""Single tries: from the act's first byte until an independent look at the engine shows it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from benchmarks.stopping.system import BASELINE, PINNED, System, released
from controller.break_glass import Verb


class Try(Struct, frozen=True, kw_only=True):
    """``shown_ms``: until somebody else saw it in the engine; ``told_ms``: until the answer."""

    verb: Verb
    shown_ms: float
    told_ms: float
    ok: bool
    recorded: bool


def tries(system: System, count: int, *, direct: bool, kills: bool = True) -> list[Try]:
    """Holds and kills in turn, each released again. A kill takes a foreign setting away.

    ``kills`` False: only holds, where nothing can be set for a kill to take away.
    """
    act = system.direct if direct else system.by_rest
    done = []
    for number in range(count):
        verb: Verb = "kill" if kills and number % 2 else "hold"
        if verb == "kill":
            _something_to_take_away(system, direct=direct)
        done.append(_one(system, verb, act))
        released(system, direct=direct)
    return done


def _something_to_take_away(system: System, *, direct: bool) -> None:
    if direct:
        system.put(PINNED)
    else:
        system.pin()


def _one(system: System, verb: Verb, act: Callable[[Verb], Any]) -> Try:
    answer: list[Any] = []
    failed: list[BaseException] = []

    def carry_out() -> None:
        try:
            answer.append(act(verb))
        except BaseException as error:  # noqa: BLE001
            # Told to whoever waits: this thread is only where it happened.
            failed.append(error)
        told.append(time.monotonic())

    told: list[float] = []
    began_s = time.monotonic()
    acting = threading.Thread(target=carry_out)
    acting.start()
    system.until(f"the {verb}", lambda: bool(failed) or _shows(system, verb))
    shown_s = time.monotonic()
    acting.join()
    if failed:
        raise failed[0]
    report = answer[0]
    return Try(
        verb=verb,
        shown_ms=(shown_s - began_s) * 1000,
        told_ms=(told[0] - began_s) * 1000,
        ok=all(one["ok"] for one in report["replicas"]),
        recorded=report["recorded"],
    )


def _shows(system: System, verb: Verb) -> bool:
    seen = system.read()
    if verb == "hold":
        return seen.hold
    found = seen.setting("active_cap")
    return found is not None and found.value == BASELINE and found.policy_id is None


def shown(done: Sequence[Try]) -> list[float]:
    """The latencies that count; a try that was not read back at all counts as for ever."""
    return [one.shown_ms if one.ok else float("inf") for one in done]

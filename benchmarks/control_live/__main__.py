"""``python -m benchmarks.control_live``: every arm in turn on a real engine; see the package.

What was lived stays in ``--progress``, a line a cycle, and is not lived again under the same code
and settings. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.control_live.arms import ARMS, Arm, turns
from benchmarks.control_live.load import Load, chats, connect
from benchmarks.control_live.scoring import RIVALS, Cycle, Shown, by_arm, paired, rate, score
from benchmarks.control_live.system import TARGET, System, begin
from benchmarks.figures import Figures, say, surroundings
from benchmarks.rounds import code_digest
from examples.journey.programs import Programs
from signals.errors import Unavailable
from signals.events import MICROS

AIMS = {
    "law_u": "-",
    "law_vs_best_static": "≥ 1.10 where static caps leave as much to gain",
    "law_vs_rule": "≥ 1",
    "law_batch_tokens_per_s": "-",
    "law_chat_attainment": "≥ 0.97: what chats ask for",
}
SOURCES = ("signals", "policies", "engine", "controller", "benchmarks/control_live")
WARM_UP_S = 25.0
REFERENCE_S = 15.0
"""Of the warm-up, its end: batch tokens a second at capacity, without chats, count as 1 in U."""
SHOWN_S = 60.0
"""The feature stage has so long to be through with an arm's signals."""
POLL_S = 0.2


class Bench:
    """One running product under load."""

    def __init__(self, system: System, load: Load, given: argparse.Namespace) -> None:
        self._system = system
        self._load = load
        self._given = given

    async def reference(self) -> float:
        """Batch tokens per second at capacity without chats."""
        await asyncio.to_thread(self._system.put, ARMS[1])
        await asyncio.sleep(WARM_UP_S)
        until_us = time.time_ns() // 1000
        await self._known(until_us)
        from_us = until_us - round(REFERENCE_S * MICROS)
        return rate(self._system.features.seconds(TARGET, from_us=from_us, to_us=until_us))

    async def cycle(self, index: int, reference: float) -> Cycle:
        """Every arm once."""
        shown = [await self._arm(arm, index, reference) for arm in turns(index)]
        return Cycle(
            index=index,
            seed=self._given.seed,
            arm_s=self._given.arm_s,
            reference_tokens_per_s=reference,
            shown=shown,
            load=[round(one, 2) for one in os.getloadavg()],
        )

    async def _arm(self, arm: Arm, index: int, reference: float) -> Shown:
        washout_s, arm_s = self._given.washout_s, self._given.arm_s
        await asyncio.to_thread(self._system.put, arm)
        began_us = time.time_ns() // 1000
        await asyncio.sleep(washout_s + arm_s / 4)
        phase = chats(1000 * self._given.seed + index, on_s=arm_s / 2)
        await self._load.talk(phase)
        ends_us = began_us + round((washout_s + arm_s) * MICROS)
        await asyncio.sleep(max(0.0, ends_us / MICROS - time.time()))
        acts = await asyncio.to_thread(self._system.acts, since_us=began_us)
        await self._known(ends_us)
        rows = self._system.features.find_requests(TARGET, limit=100_000)
        found = score(
            arm.name,
            [row for row in rows if began_us < row.arrival_us <= ends_us],
            self._system.features.seconds(TARGET, from_us=began_us, to_us=ends_us),
            began_us=began_us,
            washout_s=washout_s,
            arm_s=arm_s,
            reference=reference,
            acts=acts,
        )
        say(
            f"  cycle {index + 1}, {arm.name:<13} U {found.u:.3f}, batch"
            f" {found.batch_tokens_per_s:5.0f} tokens/s, chats {found.chat_attainment:6.1%}"
            f"{'; rule: ' + ', '.join(acts) if acts else ''}"
        )
        return found

    async def _known(self, until_us: int) -> None:
        """Until the feature stage has everything up to a moment."""
        deadline_s = time.monotonic() + SHOWN_S
        while self._system.features.watermark_us(TARGET) < until_us:
            if time.monotonic() > deadline_s:
                raise Unavailable(f"features are more than {SHOWN_S:g} s behind")
            await asyncio.sleep(POLL_S)


async def live(system: System, given: argparse.Namespace, progress: Path, left: Sequence[int],
               code: str) -> None:  # fmt: skip
    """The cycles that are left, each written down when it is over."""
    async with connect(system.chat_url) as client:
        load = Load(client, system.model(), given.seed)
        flood, bench = asyncio.create_task(load.flood()), Bench(system, load, given)
        try:
            reference = await bench.reference()
            say(f"reference: {reference:.0f} batch tokens/s at capacity, without chats")
            for index in left:
                found = await bench.cycle(index, reference)
                line = msgspec.json.encode({"code": code, "cycle": found})
                with progress.open("ab") as file:
                    file.write(line + b"\n")
        finally:
            flood.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await flood
        say(f"{load.failed} requests were not answered")


def lived(progress: Path, given: argparse.Namespace, code: str) -> dict[int, Cycle]:
    """The cycles of this code and these settings, by index; a line cut off is dropped."""
    found = {}
    for line in progress.read_bytes().splitlines() if progress.exists() else ():
        with contextlib.suppress(msgspec.MsgspecError):
            read = msgspec.json.decode(line, type=dict[str, Any])
            cycle = msgspec.convert(read["cycle"], Cycle)
            alike = (cycle.seed, cycle.arm_s) == (given.seed, given.arm_s)
            if read["code"] == code and alike and cycle.index < given.cycles:
                found[cycle.index] = cycle
    return found


def tell(cycles: Sequence[Cycle], told: Figures) -> None:
    """Print the table, and fill the last line."""
    arms = by_arm(cycles)
    us = {name: [one.u for one in found] for name, found in arms.items()}
    say(f"\n{'':<14}{'U':>7}{'batch tokens/s':>16}{'chats met':>11}   law − it, of U")
    for arm in ARMS:
        found = arms[arm.name]
        against = "" if arm.name == "law" else paired(us["law"], us[arm.name]).words()
        say(
            f"{arm.name:<14}{_mean(us[arm.name]):>7.3f}"
            f"{_mean([one.batch_tokens_per_s for one in found]):>16,.0f}"
            f"{_mean([one.chat_attainment for one in found]):>11.1%}   {against}"
        )
    told.more["arms"] = {arm.name: arm.words for arm in ARMS}
    told.more["law"] = "imported as kept: not judged here"
    told.more["cycles"] = msgspec.to_builtins(cycles)
    told.more["law_minus"] = {
        rival: {
            "u": msgspec.to_builtins(paired(us["law"], us[rival])),
            "batch_tokens_per_s": msgspec.to_builtins(_between(arms, rival, "batch_tokens_per_s")),
            "chat_attainment": msgspec.to_builtins(_between(arms, rival, "chat_attainment")),
        }
        for rival in RIVALS
    }
    law, best = _mean(us["law"]), max(_mean(us[name]) for name in RIVALS[:2])
    told.key("law_u", law)
    told.key("law_vs_best_static", law / best)
    told.key("law_vs_rule", law / _mean(us["rule"]))
    told.key("law_batch_tokens_per_s", _mean([one.batch_tokens_per_s for one in arms["law"]]))
    told.key("law_chat_attainment", _mean([one.chat_attainment for one in arms["law"]]))


def _between(arms: dict[str, list[Shown]], rival: str, figure: str) -> Any:
    mine, its = ([getattr(one, figure) for one in arms[name]] for name in ("law", rival))
    return paired(mine, its)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.control_live", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--cycles", type=int, default=3, help="every arm once in each")
    parser.add_argument(
        "--arm-s", type=float, default=160.0, help="of each arm, half of it with chats"
    )
    parser.add_argument("--washout-s", type=float, default=10.0, help="before each, not counted")
    parser.add_argument("--seed", type=int, default=1, help="of chats and jobs")
    parser.add_argument("--progress", type=Path, help="where to go on from, and to")
    return parser.parse_args(arguments)


def main() -> int:
    """0 when everything was measured; the figures decide nothing."""
    given, told, began_s = options(), Figures(AIMS), time.monotonic()
    told.more |= surroundings(given.seed, given.arm_s < 120 or given.cycles < 3, ("httpx",))
    say(", ".join(f"{name} {value}" for name, value in told.more.items()))
    say("; ".join(f"{arm.name}: {arm.words}" for arm in ARMS))
    progress = given.progress or Path(tempfile.gettempdir()) / "trimtab-bench-control-live.jsonl"
    code = code_digest(SOURCES)
    done = lived(progress, given, code)
    left = [index for index in range(given.cycles) if index not in done]
    seconds = len(left) * len(ARMS) * (given.arm_s + given.washout_s)
    say(f"{len(done)} cycles were lived before, {len(left)} are to be: {seconds / 60:.0f} min")
    if left:
        with (
            tempfile.TemporaryDirectory(prefix="trimtab-live-") as folder,
            Programs(Path(folder) / "logs") as programs,
        ):
            system = begin(programs, Path(folder))
            try:
                asyncio.run(live(system, given, progress, left, code))
            finally:
                system.close()
    cycles = lived(progress, given, code)
    tell([cycles[index] for index in sorted(cycles)], told)
    told.more["load_average_after"] = [round(value, 2) for value in os.getloadavg()]
    told.more["took_s"] = round(time.monotonic() - began_s)
    say(f"\n{told.table()}")
    print(json.dumps(told.document(), ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())

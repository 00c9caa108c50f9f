"""Commands under ``kill -9``: carried out once, in their place, whenever the stage dies."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

from signals.events import LetterSelection, Record, Signal
from tests.signals import dying
from tests.signals.making import T0_US, arrived, feedback
from tests.signals.on_the_bus import (
    OnTheBus,
    accounted,
    commanded,
    discard,
    folded_afresh,
    quarantine,
    replay,
)
from tests.signals.processes import eventually

SEED = 47
EVENTS = 1000
KILLS = 25
TABLES = ("dead_letters", "commands", "quarantine", "orphans", "outcomes", "shelves", "producers")


def stream(rng: Random) -> list[Record | Signal | bytes]:
    """Requests, feedback of three producers, much of it dead, and commands about all of it."""
    made: list[Record | Signal | bytes] = []
    for n in range(EVENTS):
        shop = rng.choice(("shop", "mall", "fair"))
        number = rng.randrange(60)
        made.append(
            rng.choices(
                (
                    arrived(n, number, T0_US + n),
                    feedback(f"f{n}", T0_US + n, number=number, producer=shop),
                    feedback(f"f{rng.randrange(n + 1)}", T0_US + n, number=number, producer=shop),
                    feedback(f"g{n}", T0_US + n, number=number, name="gone", producer=shop),
                    b"{",
                    commanded(f"c{n}", quarantine(shop, on=rng.random() < 0.5)),
                    commanded(f"c{n}", replay(*(rng.randrange(1, n + 2) for _ in range(20)))),
                    commanded(f"c{n}", replay(where=_some(rng, shop))),
                    commanded(f"c{n}", discard(where=_some(rng, shop))),
                    commanded(f"c{rng.randrange(n + 1)}", discard(n)),
                ),
                (25, 35, 6, 6, 2, 6, 4, 8, 2, 1),
            )[0]
        )
    return made


def _some(rng: Random, shop: str) -> LetterSelection:
    return LetterSelection(
        producer=shop,
        reason=rng.choice((None, "quarantined", "conflict")),
        limit=rng.randint(1, 30),
    )


def contents(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    with closing(sqlite3.connect(path)) as db:
        return {
            table: db.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall() for table in TABLES
        }


def test_commands_are_carried_out_once_in_their_place_whenever_the_stage_is_killed(
    tmp_path: Path,
) -> None:
    rng = Random(SEED)
    line = OnTheBus(tmp_path)
    events = stream(rng)
    for _ in range(KILLS):
        line.post(*events[: EVENTS // KILLS])
        del events[: EVENTS // KILLS]
        process = dying.start(tmp_path, publish_ms=10, batch_events=100)
        assert dying.killed(process, after_s=rng.uniform(0.02, 0.15))
    line.post(*events, feedback("last", T0_US, number=0))
    process = dying.start(tmp_path, publish_ms=10)
    eventually(line.features, offset=line.reader.end(), within_s=60)
    assert dying.stopped(process) == 0
    folded_afresh(line, tmp_path).close()
    killed, whole = contents(tmp_path / "features.db"), contents(tmp_path / "scratch.db")
    for table in TABLES:
        assert killed[table] == whole[table], f"{table}, seed {SEED}"
    done = sum(outcome.done for outcome in line.features.commands(limit=EVENTS))
    assert done > 50, "the commands had much to do"
    accounted(line)
    line.close()

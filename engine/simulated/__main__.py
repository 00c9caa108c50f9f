"""``python -m engine.simulated --settings FILE``: a simulated engine's control listener.

FILE is that of ``python -m engine``: its sizes, knobs and control listener count, its model and its
chat API do not. Chats come by a Poisson process of ``--chats-per-s``. Standard output gets one line
of JSON when it is ready. It ends on SIGTERM, or when its parent is gone. Exit codes: 0 stopped as
told, 2 it cannot start like this.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import threading
import time
from pathlib import Path

import msgspec
import numpy as np

from engine.generation import QueueFull
from engine.http.listeners import bind
from engine.run_settings import EngineRun, load_run, read_keys
from engine.settings import BLOCK_TOKENS, EngineSettings
from engine.settings_in_force import EngineIdentity
from engine.simulated.arrivals.kinds import LIVE
from engine.simulated.arrivals.poisson import Load, poisson
from engine.simulated.offered import Arrivals, Offered
from engine.simulated.paced import PacedEngine
from engine.simulated.serving import served
from engine.simulated.spec import ReplicaSpec
from engine.simulated.step_times import StepTimes
from signals.errors import Rejected, Unavailable
from signals.stopping import stop_on_termination

log = logging.getLogger("engine.simulated")

WATCH_S = 0.2
TIMES = StepTimes(base_us=10_000, per_decode_us=500, per_prefill_us=100)


def main(arguments: list[str]) -> int:
    """Run one; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m engine.simulated",
        description="Serve the settings of an engine of arithmetic: its control listener, and chats"
        " that come by themselves. It posts no signals and has no chat API.",
        epilog="Exit codes: 0 stopped as told, 2 it cannot start like this.",
    )
    parser.add_argument(
        "--settings",
        type=Path,
        required=True,
        metavar="FILE",
        help="what an engine is told at its start, as JSON: engine.json of a state directory",
    )
    parser.add_argument(
        "--chats-per-s",
        type=float,
        default=0.0,
        metavar="RATE",
        help="chats a second, at random times (default 0: nobody comes)",
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="of the chats: the same, the same times (default 1)"
    )
    given = parser.parse_args(arguments)
    if not given.chats_per_s >= 0:
        parser.error(f"argument --chats-per-s: {given.chats_per_s:g} is below 0")
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    stop = stop_on_termination()
    try:
        chats = Load(kind=LIVE, per_s=given.chats_per_s)
        arrivals = poisson(chats, np.random.default_rng(given.seed))
        serve(load_run(given.settings), arrivals if given.chats_per_s else iter(()), stop)
    except (Rejected, Unavailable) as wrong:
        where = f"{wrong.field}: " if isinstance(wrong, Rejected) and wrong.field else ""
        log.error("cannot start: %s%s", where, wrong)
        return 2
    return 0


def serve(run: EngineRun, arrivals: Arrivals, stop: threading.Event) -> None:
    """Until ``stop`` is set or the parent is gone. Raises ``Rejected`` or ``Unavailable``."""
    settings, parent = run.engine, os.getppid()
    key = read_keys(settings).control
    door = bind(settings.control_host, settings.control_port)
    identity = EngineIdentity(
        target=run.target, replica=run.replica, incarnation=os.urandom(4).hex()
    )
    engine = PacedEngine(
        identity,
        msgspec.structs.replace(spec_of(settings), intents=tuple(run.intents)),
        max_pending=settings.max_pending_patches,
        remembered=settings.remembered_changes,
    )
    with served(engine, door, key=key, apply_timeout_s=settings.apply_timeout_s) as url:
        ready = {"target": run.target, "replica": run.replica, "control_url": url}
        sys.stdout.write(msgspec.json.encode(ready).decode() + "\n")
        sys.stdout.flush()
        began_s = time.monotonic()
        coming, refused = next(arrivals, None), 0
        while not stop.is_set() and os.getppid() == parent:
            passed_s = time.monotonic() - began_s
            while coming is not None and coming.arrival_s <= passed_s:
                refused += not _offered(engine, coming)
                coming = next(arrivals, None)
            due_s = WATCH_S if coming is None else coming.arrival_s - passed_s
            stop.wait(min(WATCH_S, due_s))
    log.info("stopped; %d chats found the queue full", refused)


def _offered(engine: PacedEngine, chat: Offered) -> bool:
    try:
        engine.offer(chat)
    except QueueFull:
        return False
    return True


def spec_of(settings: EngineSettings) -> ReplicaSpec:
    """A replica of the same sizes and knobs."""
    return ReplicaSpec(
        step_times=TIMES,
        kv_blocks=settings.kv_blocks,
        block_tokens=BLOCK_TOKENS,
        capacity_active=settings.capacity_active,
        capacity_budget=settings.capacity_budget,
        boot_active_cap=settings.boot_active_cap,
        boot_step_token_budget=settings.boot_step_token_budget,
        capacity_answer=settings.context,
        max_queue=settings.max_queue,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

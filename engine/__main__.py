"""``python -m engine --settings FILE``: one engine until SIGTERM, or until its parent is gone.

Standard output gets one line of JSON when it is ready. Exit codes: 0 stopped as told, 1 the engine
broke, 2 it cannot start like this.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from engine.http.listeners import Doors, bind
from engine.run_settings import EngineRun, load_run, read_keys
from engine.settings import set_thread_environment
from signals.errors import Broken, Rejected, Unavailable
from signals.stopping import stop_on_termination

if TYPE_CHECKING:
    from engine.bootstrap import EngineProcess

log = logging.getLogger("engine")

WATCH_S = 0.2
"""How often the main thread looks whether everything still runs."""


def main(arguments: list[str]) -> int:
    """Run one engine; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m engine")
    parser.add_argument("--settings", type=Path, required=True, help="an EngineRun as JSON")
    path: Path = parser.parse_args(arguments).settings
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    logging.getLogger("httpx").setLevel(logging.WARNING)
    stop = stop_on_termination()
    parent = os.getppid()
    try:
        process = _start(load_run(path))
    except (Rejected, Unavailable) as wrong:
        where = f"{wrong.field}: " if isinstance(wrong, Rejected) and wrong.field else ""
        log.error("cannot start: %s%s", where, wrong)
        return 2
    try:
        while not stop.wait(WATCH_S) and os.getppid() == parent:
            process.check()
    except Broken:
        log.exception("stopped")
        return 1
    finally:
        process.close()
    return 0


def _start(run: EngineRun) -> EngineProcess:
    """Read what can be wrong first, load torch last."""
    settings = run.engine
    keys = read_keys(settings)
    doors = Doors(
        chat=bind(settings.host, settings.port),
        control=bind(settings.control_host, settings.control_port),
    )
    # Torch is slow to load and reads its environment once: only now, and after the environment.
    set_thread_environment()
    from engine.bootstrap import EngineProcess

    process = EngineProcess(run, keys, doors)
    ready = process.start()
    sys.stdout.write(msgspec.json.encode(ready).decode() + "\n")
    sys.stdout.flush()
    return process


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

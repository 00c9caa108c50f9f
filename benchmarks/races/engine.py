"""``python -m benchmarks.races.engine``: an engine that has settings, and no model.

The control listener, the settings and their expiry are the product's own; only the steps are
empty, one every ``STEP_S`` as in an idle engine and one at once when a patch comes.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import threading
from collections.abc import Mapping

from engine.generation import CLASSES, Load
from engine.http.control import control_app
from engine.http.listeners import Listeners, bind
from engine.knobs import embedded_knobs
from engine.live_settings import LiveSettings
from engine.settings_in_force import EngineIdentity, Instant
from policies.ids import new_id
from policies.runtime_config import Stamp
from signals.stopping import stop_on_termination

STEP_S = 0.05
CAPACITY_ACTIVE, CAPACITY_BUDGET = 64, 256
IDLE = Load(waiting={}, running={}, kv_blocks_used=0, kv_blocks_total=0)


class Nobody:
    """A ``LoadObserver`` that has no use for what it is told."""

    def arrived(self, intent: str, offered_tokens: int) -> None:
        """Nothing arrives here."""

    def passed(
        self, before: Stamp, after: Stamp, load: Load, values: Mapping[str, int], now: Instant
    ) -> None:
        """A boundary."""


def live_settings(target: str, replica: str, *, now_us: int, chance: bytes) -> LiveSettings:
    """The settings of an engine with the knobs of the embedded one."""
    return LiveSettings(
        EngineIdentity(target=target, replica=replica, incarnation=new_id("inc", now_us, chance)),
        embedded_knobs(
            capacity_active=CAPACITY_ACTIVE,
            capacity_budget=CAPACITY_BUDGET,
            boot_active_cap=None,
            boot_step_token_budget=None,
        ),
        CLASSES,
        Nobody(),
        max_pending=256,
        remembered=1024,
    )


def main(arguments: list[str] | None = None) -> int:
    """Serve until told to end; says ``ready`` when it does."""
    import os
    import time

    parser = argparse.ArgumentParser(prog="benchmarks.races.engine")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--target", default="chat")
    given = parser.parse_args(arguments)
    stop, woken = stop_on_termination(), threading.Event()
    live = live_settings(given.target, "r0", now_us=time.time_ns() // 1000, chance=os.urandom(8))
    app = control_app(live, woken.set, key=given.key, apply_timeout_s=5.0)
    listeners = Listeners(asyncio.new_event_loop(), max_connections=64, stop_grace_s=1.0)
    listeners.start([(app, bind("127.0.0.1", given.port))])
    print("ready", flush=True)
    while not stop.is_set():
        woken.wait(STEP_S)
        woken.clear()
        live.boundary(IDLE)
    listeners.stop_accepting()
    listeners.join(3.0)
    return 0


if __name__ == "__main__":
    sys.exit(main())

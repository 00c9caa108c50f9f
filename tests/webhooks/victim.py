"""Records acts and tells a hook of them until it is killed.

``python -m tests.webhooks.victim FOLDER URL``: each act that is committed is one line of output.
"""

from __future__ import annotations

import sys
import threading
from contextlib import closing
from pathlib import Path

from controller.keys import wall_us
from controller.settings import Settings
from controller.store.address import address_of
from controller.store.sql import SqlStore
from controller.webhooks.running import webhooks_running

PAUSE_S = 0.002


def main(folder: Path, url: str) -> None:
    """Until killed, or its output is read no more."""
    hooks = {"ops": {"url": url, "events": ["mode.set"]}}
    settings = Settings.model_validate(
        {
            "state_dir": folder,
            "webhooks": {"hooks": hooks, "poll_ms": 10, "batch": 7, "max_age_s": 600},
        }
    )
    stop = threading.Event()
    with (
        closing(SqlStore(address_of(folder / "store.db"))) as store,
        webhooks_running(settings, store, stop, clock=wall_us),
    ):
        while not stop.wait(PAUSE_S):
            with store.write() as tx:
                tx.append_audit(
                    at_us=wall_us(),
                    actor="a",
                    action="mode.set",
                    subject="s",
                    target="",
                    details={},
                )
            sys.stdout.write("acted\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

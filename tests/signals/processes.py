"""Ingest and features as real processes. ``python -m tests.signals.processes ingest FOLDER PORT``.

The controller wires them from ``trimtab.yaml``; here the wiring is what the tests need.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import httpx

from signals.bus import log_file
from signals.bus.settings import BusSettings
from signals.bus.sqlite import SqliteBus, SqliteBusReader
from signals.definitions import StaticDefinitions
from signals.errors import Unavailable
from signals.features.main import run as run_features
from signals.features.owning import SoleOwner
from signals.features.reader import SqliteFeatures
from signals.ingest.keys import Producer, StaticKeys, sha256_hex
from signals.ingest.main import run as run_ingest
from signals.settings import FeatureSettings, IngestSettings
from signals.stopping import stop_on_termination
from tests.signals.making import INTENTS, METRICS

ROOT = Path(__file__).parents[2]
READY_S = 20.0

KEYS = StaticKeys(
    {
        sha256_hex("engine-key"): Producer(name="engine", kinds=frozenset({"basic"})),
        sha256_hex("shop-key"): Producer(name="shop", kinds=frozenset({"business"})),
        sha256_hex("rogue-key"): Producer(name="rogue", kinds=frozenset({"business"})),
        sha256_hex("narrow-key"): Producer(
            name="narrow",
            kinds=frozenset({"business"}),
            targets=frozenset({"chat"}),
            names=frozenset({"copied"}),
        ),
    }
)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Running:
    """A process of the pipeline; killed, if need be, when the test is over."""

    def __init__(self, *arguments: str, env: Mapping[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.signals.processes", *arguments],
            cwd=ROOT,
            env={**os.environ, **(env or {})},
        )

    def kill(self) -> None:
        """SIGKILL: no goodbye."""
        self.process.kill()
        self.process.wait(10)

    def stop(self) -> int:
        """SIGTERM, and its exit code."""
        self.process.terminate()
        return self.process.wait(10)


def start_ingest(
    folder: Path, port: int, *, what: str = "ingest", env: Mapping[str, str] | None = None
) -> Running:
    running = Running(what, str(folder), str(port), env=env)
    deadline_s = time.monotonic() + READY_S
    while time.monotonic() < deadline_s:
        try:
            if httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=1).status_code == 200:
                return running
        except httpx.HTTPError:
            pass
        assert running.process.poll() is None, "ingest ended while starting"
        time.sleep(0.02)
    running.kill()
    raise AssertionError("ingest was not ready in time")


def start_features(folder: Path) -> Running:
    return Running("features", str(folder))


@contextmanager
def pipeline(folder: Path) -> Iterator[httpx.Client]:
    """Both processes, and a client with the shop's key."""
    port = free_port()
    ingest = start_ingest(folder, port)
    features = start_features(folder)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20) as client:
            yield client
    finally:
        features.kill()
        ingest.kill()


def eventually(features: SqliteFeatures, *, offset: int, within_s: float = READY_S) -> None:
    """Wait until the stage has the offset behind it."""
    deadline_s = time.monotonic() + within_s
    seen: int | Unavailable = -1
    while time.monotonic() < deadline_s:
        try:
            seen = features.bus_offset()
        except Unavailable as unavailable:
            seen = unavailable
        if isinstance(seen, int) and seen >= offset:
            return
        time.sleep(0.02)
    raise AssertionError(f"the stage did not reach {offset}: {seen}")


def main(what: str, folder: Path, *rest: str) -> None:
    stop = stop_on_termination()
    if what == "ingest-unsynced":
        log_file.SYNCHRONOUS = "OFF"
    small = {"segment_bytes": 65_536} if what == "ingest-small-segments" else {}
    if what.startswith("ingest"):
        run_ingest(
            bus=SqliteBus(
                folder / "bus",
                BusSettings.model_validate(small),
                consumers={"features": SqliteFeatures(folder / "features.db").bus_offset},
            ),
            keys=KEYS,
            definitions=StaticDefinitions(METRICS),
            targets=INTENTS.keys(),
            settings=IngestSettings(port=int(rest[0])),
            stop=stop,
        )
    else:
        follow(folder, FeatureSettings(), stop)


def follow(folder: Path, settings: FeatureSettings, stop: threading.Event) -> None:
    """The feature stage, until told to stop."""
    path = folder / "features.db"
    with closing(SoleOwner(SqliteBusReader(folder / "bus"), path)) as owner:
        run_features(
            assignment=owner,
            path_of=lambda partition: path,
            intents=INTENTS,
            definitions=StaticDefinitions(METRICS),
            settings=settings,
            stop=stop,
        )


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])

"""The command line against a control plane that answers over real HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.api.server import serve_until
from controller.config.sections import ServeSettings
from tests.api.plane import Plane
from tests.cli.running import Trimtab, answers, until
from tests.signals.processes import free_port


class Served:
    """A plane, where it listens, and the command line for each of its keys."""

    def __init__(self, plane: Plane, url: str, folder: Path) -> None:
        self.plane = plane
        self.url = url
        self._folder = folder

    def as_(self, who: str) -> Trimtab:
        """The command line under somebody's key."""
        key = self._folder / f"{who}.key"
        key.write_text(self.plane.tokens[who] + "\n")
        return Trimtab(self._folder, {"TRIMTAB_URL": self.url, "TRIMTAB_KEY_FILE": str(key)})


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One for the tests of a file."""
    folder = tmp_path_factory.mktemp("served")
    plane = Plane(folder)
    plane.world.run(1)
    settings, stop = ServeSettings(port=free_port()), threading.Event()
    thread = threading.Thread(target=serve_until, args=(stop, plane.app, settings))
    thread.start()
    url = f"http://127.0.0.1:{settings.port}"
    try:
        until(lambda: answers(f"{url}/healthz"), "the control plane answers")
        yield Served(plane, url, folder)
    finally:
        stop.set()
        thread.join()
        plane.close()

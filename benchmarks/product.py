"""The whole product, as an operator starts it: a file, ``trimtab up``, free ports, keys."""

from __future__ import annotations

import json
import os
from pathlib import Path

import httpx

from examples.journey.programs import Programs
from examples.journey.sample import Ports, free_ports

READY_S = 300.0
"""At its first start an engine prepares its weights."""


def start(programs: Programs, folder: Path, configuration: str, **words: object) -> Ports:
    """Write the configuration into the folder, start everything, and wait until it is ready.

    ``configuration`` names ``state_dir`` and the ports ``chat``, ``control``, ``signals`` and
    ``api`` in braces, and what else is given in ``words``.
    """
    ports, path = free_ports(), folder / "trimtab.yaml"
    numbers = {name: getattr(ports, name) for name in ("chat", "control", "signals", "api")}
    text = configuration.format(state_dir=folder, **numbers, **words)
    path.write_text(text, encoding="utf-8")
    programs.start("up", ["controller.cli", "--config", os.fspath(path), "up", "--json"])
    programs.wait("`trimtab up` to be ready", lambda: _ready(programs), timeout_s=READY_S)
    return ports


def caller(url: str, key: str) -> httpx.Client:
    """A client with somebody's key."""
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.Client(base_url=url, headers=headers, timeout=15, trust_env=False)


def secret(folder: Path, name: str) -> str:
    """A key that the first start has made: ``admin``, ``control``."""
    return (folder / "keys" / f"{name}.key").read_text(encoding="utf-8").strip()


def _ready(programs: Programs) -> bool:
    for line in programs.log("up").read_text(encoding="utf-8").splitlines():
        told = json.loads(line) if line.startswith("{") else {}
        if told.get("event") == "ready" and "urls" in told:
            return True
    return False

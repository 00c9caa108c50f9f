"""Which processes ``trimtab up`` starts, with which commands, and when each is ready.

Started in this order and stopped in the reverse: the engine's last signals still find ingest, and
ingest's last events are still read.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import httpx
import msgspec

from controller.bootstrap import features_ready
from controller.layout import Layout
from controller.processes.addresses import url
from controller.processes.child import ChildSpec
from controller.processes.engine_start import engine_command
from controller.settings import Settings

READY_TIMEOUT_S = 1.0


def child_specs(settings: Settings, config: Path | None) -> list[ChildSpec]:
    """The processes of this machine. Writes what the engine is told."""
    layout = Layout(settings.state_dir)
    found = [
        _stage(settings, config, "features", ready=lambda pid: features_ready(settings, pid)),
        _stage(settings, config, "ingest", at=url(settings.ingest.host, settings.ingest.port)),
    ]
    if settings.here() is not None:
        found.append(_engine(settings, layout))
    plane = url(settings.serve.host, settings.serve.port)
    return [*found, _stage(settings, config, "serve", at=plane)]


def _engine(settings: Settings, layout: Layout) -> ChildSpec:
    chat = url(settings.engine.host, settings.engine.port)
    control = url(settings.engine.control_host, settings.engine.control_port)
    return ChildSpec(
        name="engine",
        command=engine_command(settings),
        env=_env(OMP_WAIT_POLICY="PASSIVE"),
        log=layout.logs / "engine.log",
        ready=lambda _: _answers(f"{chat}/healthz"),
        urls={"chat": f"{chat}/v1", "control": control},
    )


def _stage(
    settings: Settings,
    config: Path | None,
    name: str,
    *,
    at: str | None = None,
    ready: Callable[[int], bool] | None = None,
) -> ChildSpec:
    named = ("--config", os.fspath(config)) if config is not None else ()
    return ChildSpec(
        name=name,
        command=(sys.executable, "-m", "controller.cli", *named, name),
        env=_env(),
        log=Layout(settings.state_dir).logs / f"{name}.log",
        ready=ready or (lambda _: _answers(f"{at}/readyz")),
        urls={name: at} if at is not None else {},
    )


def _env(**more: str) -> Mapping[str, str]:
    return {**os.environ, "PYTHONUNBUFFERED": "1", **more}


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=READY_TIMEOUT_S, trust_env=False).is_success
    except httpx.HTTPError:
        return False


def ready_line(specs: list[ChildSpec], pids: Mapping[str, int], layout: Layout) -> str:
    """One line of JSON for whoever started ``up`` and waits for it."""
    urls = {name: at for spec in specs for name, at in spec.urls.items()}
    line = {
        "event": "ready",
        "urls": urls,
        "pids": pids,
        "admin_key": os.fspath(layout.key("admin").absolute()),
        "state_dir": os.fspath(layout.root.absolute()),
    }
    return msgspec.json.encode(line).decode()

"""How this machine's engine is started: what it is told, and by which command."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from controller.layout import Layout
from controller.processes.addresses import url
from controller.settings import Settings
from engine.run_settings import EngineRun
from signals.errors import Rejected

REPLICA = "r0"


def engine_run(settings: Settings) -> EngineRun:
    """What the engine is told. Raises ``Rejected`` when no target uses this machine's."""
    name = settings.here()
    if name is None:
        raise Rejected("no target uses this machine's engine", field="targets")
    layout, given = Layout(settings.state_dir), settings.engine
    defaults = {
        "ingest_url": url(settings.ingest.host, settings.ingest.port),
        "producer_key_file": layout.key("engine").absolute(),
        "control_key_file": layout.key("control").absolute(),
        "trace_log": layout.trace_log.absolute(),
    }
    if settings.privacy.hash_ids:
        defaults["privacy_key_file"] = layout.key("privacy").absolute()
    unset = {field: value for field, value in defaults.items() if getattr(given, field) is None}
    return EngineRun(
        target=name,
        replica=REPLICA,
        intents=settings.targets[name].intents,
        engine=given.model_copy(update=unset),
    )


def engine_command(settings: Settings) -> tuple[str, ...]:
    """Write what the engine is told to a file; the command that runs it. Raises ``Rejected``."""
    path = Layout(settings.state_dir).engine_run
    _replace(path, engine_run(settings).model_dump_json(by_alias=True, indent=2))
    return (sys.executable, "-m", "engine", "--settings", os.fspath(path))


def _replace(path: Path, text: str) -> None:
    """Whoever reads meanwhile sees the old file or the new one."""
    beside = path.with_suffix(".new")
    beside.write_text(text, "utf-8")
    beside.replace(path)

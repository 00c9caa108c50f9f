"""The one place that names concrete adapters and wires them, process by process.

Each ``run_*`` is one process's whole life: it returns when ``stop`` is set, and raises when it
can't go on. Nothing connects at import time, and each process imports only what it needs: the
serve process, which needs most, is wired in ``controller.serve_wiring``.
"""

from __future__ import annotations

import threading
from contextlib import closing

import psutil

from controller.layout import Layout
from controller.settings import Settings
from signals.errors import Unavailable


def run_ingest(settings: Settings, stop: threading.Event) -> None:
    """The signals API and the bus."""
    from controller.definition_reader import StoreDefinitions
    from controller.keys import StoreKeyReader
    from signals.bus.sqlite import SqliteBus
    from signals.features.reader import SqliteFeatures
    from signals.ingest.main import run

    layout = Layout(settings.state_dir)
    features = SqliteFeatures(layout.features_db)
    keys = StoreKeyReader(
        layout.store_db, cache_s=settings.serve.keys_cache_s, settings=settings.store
    )
    definitions = StoreDefinitions(
        layout.store_db, cache_s=settings.serve.definitions_cache_s, settings=settings.store
    )
    try:
        bus = SqliteBus(layout.bus, settings.bus, consumers={"features": features.bus_offset})
        run(
            bus=bus,
            keys=keys,
            definitions=definitions,
            targets=settings.targets,
            settings=settings.ingest,
            stop=stop,
        )
    finally:
        definitions.close()
        keys.close()
        features.close()


def run_features(settings: Settings, stop: threading.Event) -> None:
    """Dedupe, join, windows."""
    from signals.bus.sqlite import SqliteBusReader
    from signals.features.main import run
    from signals.features.owning import SoleOwner

    layout = Layout(settings.state_dir)
    with (
        closing(SqliteBusReader(layout.bus)) as reader,
        closing(SoleOwner(reader, layout.features_db)) as owner,
    ):
        run(
            assignment=owner,
            path_of=layout.features,
            intents={name: target.intents for name, target in settings.targets.items()},
            metrics=settings.metrics,
            settings=settings.features,
            stop=stop,
        )


def run_serve(settings: Settings, stop: threading.Event) -> None:
    """The loop of each target, and the control plane."""
    from controller.serve_wiring import serve

    serve(settings, stop)


def features_ready(settings: Settings, pid: int) -> bool:
    """Whether the feature stage of that process has its store open, and it can be read."""
    from signals.features.reader import SqliteFeatures

    path = Layout(settings.state_dir).features_db
    features = SqliteFeatures(path)
    try:
        features.bus_offset()
        opened = psutil.Process(pid).open_files()
    except (Unavailable, psutil.Error):
        return False
    finally:
        features.close()
    return str(path.resolve()) in {file.path for file in opened}

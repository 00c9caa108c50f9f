"""The one file that names concrete adapters and wires them, process by process.

Each ``run_*`` is one process's whole life: it returns when ``stop`` is set, and raises when it
can't go on. Nothing connects at import time.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from controller.addresses import control_urls
from controller.api.app import make_app
from controller.api.ports import Services
from controller.api.server import serve_until
from controller.fleet import Fleet, Replica, monotonic_s
from controller.keys import Authenticator, StoreKeyReader, wall_us
from controller.latch import Latch
from controller.layout import Layout
from controller.looking import Looker
from controller.operations import Operations
from controller.rules import compile_rules
from controller.secret_files import read_secret
from controller.serve import TargetLoop
from controller.serving import Identity, Loops, take_identity
from controller.settings import Settings
from controller.state import Declared
from controller.store.port import Store
from controller.store.sql import open_store
from engine.adapters.http import HttpActuator
from signals.bus.sqlite import SqliteBusReader
from signals.errors import Unavailable
from signals.features.main import run as run_feature_stage
from signals.features.reader import SqliteFeatures
from signals.file_lock import FileLock
from signals.ingest.main import run as run_signals_api


def run_ingest(settings: Settings, stop: threading.Event) -> None:
    """The signals API and the bus."""
    layout = Layout(settings.state_dir)
    keys = StoreKeyReader(
        layout.store_db, cache_s=settings.serve.keys_cache_s, settings=settings.store
    )
    try:
        run_signals_api(
            bus_path=layout.bus_db,
            keys=keys,
            metrics=settings.metrics,
            targets=settings.targets,
            settings=settings.ingest,
            bus_settings=settings.bus,
            consumers={"features": SqliteFeatures(layout.features_db).bus_offset},
            stop=stop,
        )
    finally:
        keys.close()


def run_features(settings: Settings, stop: threading.Event) -> None:
    """Dedupe, join, windows."""
    layout = Layout(settings.state_dir)
    run_feature_stage(
        bus=SqliteBusReader(layout.bus_db),
        path=layout.features_db,
        intents={name: target.intents for name, target in settings.targets.items()},
        metrics=settings.metrics,
        settings=settings.features,
        stop=stop,
    )


def features_ready(settings: Settings, pid: int) -> bool:
    """Whether the feature stage of that process has its store open, and it can be read."""
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


def run_serve(settings: Settings, stop: threading.Event) -> None:
    """The loop of each target, and the control plane. Raises what a loop failed with."""
    layout = Layout(settings.state_dir)
    with FileLock(layout.store_db):
        store = open_store(layout.store_url, settings.store)
        try:
            _serve(settings, layout, store, stop)
        finally:
            store.close()


def _serve(settings: Settings, layout: Layout, store: Store, stop: threading.Event) -> None:
    features = SqliteFeatures(layout.features_db)
    declared = {name: _declared(settings, name) for name in settings.targets}
    identity = take_identity(store)
    with _fleet(settings, layout, identity) as fleet:
        loops = Loops(
            {
                name: TargetLoop(
                    one,
                    store,
                    fleet,
                    Looker(
                        one,
                        features,
                        fleet.first(name),
                        lateness_s=settings.features.lateness_s,
                    ),
                    ours=identity.ours,
                    clock=wall_us,
                    mono=time.monotonic,
                    entropy=os.urandom,
                )
                for name, one in declared.items()
            }
        )
        services = Services(
            settings=settings,
            store=store,
            store_file=layout.store_db,
            features=features,
            dead_letters=features,
            operations=Operations(
                store, fleet, declared, clock=wall_us, mono=monotonic_s, wake=loops.wake
            ),
            authenticator=Authenticator(store, cache_s=settings.serve.keys_cache_s),
            loop=loops,
            fleet=fleet,
            clock=wall_us,
        )
        with loops.running(stop):
            serve_until(stop, make_app(services), settings.serve)
        loops.check()


def _declared(settings: Settings, name: str) -> Declared:
    target = settings.targets[name]
    return Declared(
        name=name,
        target=target,
        rules=compile_rules(target.rules, intents=target.intents, metrics=settings.metrics),
        trial=settings.trial,
        guardrails=settings.guardrails,
        serve=settings.serve,
        plant=settings.plant,
    )


@contextmanager
def _fleet(settings: Settings, layout: Layout, identity: Identity) -> Iterator[Fleet]:
    key = read_secret(layout.key("control"))
    timeout_s = settings.serve.actuator_timeout_ms / 1000
    actuators: list[HttpActuator] = []
    replicas: dict[str, list[Replica]] = {}
    for name, target in settings.targets.items():
        for url in control_urls(settings, target):
            actuator = HttpActuator(url, key, timeout_s=timeout_s)
            actuators.append(actuator)
            replica = Replica(
                url, actuator, ours=identity.ours, epoch=identity.epoch, mono=monotonic_s
            )
            replicas.setdefault(name, []).append(replica)
    try:
        yield Fleet(replicas, Latch(layout.latch))
    finally:
        for actuator in actuators:
            actuator.close()

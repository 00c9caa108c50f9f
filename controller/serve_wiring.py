"""The serve process put together: store, engines, loops, control plane."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from controller.api.app import make_app
from controller.api.ports import Services
from controller.api.server import serve_until
from controller.audit.archives import Archives
from controller.audit.desk import audit_desk, publishing
from controller.baselines import bring_in_baseline
from controller.bootstrap import bus_readers, features_of, privacy_key, store_address
from controller.bus_view import BusView
from controller.command_post import HttpCommands
from controller.config.recorded import record
from controller.erasing import Erasures
from controller.expecting import ExpectingStore
from controller.feedback import FeedbackOperations
from controller.fleet import Fleet, Replica, monotonic_s
from controller.identity.oidc import reading_tokens
from controller.inspection import Inspection
from controller.keys import Authenticator, wall_us
from controller.latch import Latch
from controller.layout import Layout
from controller.looking import Looker
from controller.operations import Operations
from controller.processes.addresses import control_urls
from controller.processes.first_start import bring_in_metrics
from controller.processes.secret_files import read_secret
from controller.rating import Rating, terms
from controller.retention import retention_running
from controller.rule_loading import load_rules
from controller.rule_reload import RuleFile
from controller.serve import TargetLoop
from controller.serving import Identity, Loops, take_identity
from controller.settings import Settings
from controller.state import Declared
from controller.store.owning import owning
from controller.store.port import Store
from controller.store.sql import open_store
from controller.watching import Watched
from controller.webhooks.running import webhooks_running
from engine.adapters.http import HttpActuator
from signals.bus.port import Consumed
from signals.features.partitioned import PartitionedFeatures


def serve(settings: Settings, stop: threading.Event, config: Path | None = None) -> None:
    """One serve process's life.

    Raises ``Broken`` when a loop fails, ``Unavailable``, ``Fenced`` when a newer serve took over.
    """
    layout = Layout(settings.state_dir)
    address = store_address(settings)
    with (
        owning(address, settings.store) as owner,
        closing(open_store(address, settings.store, owner=owner)) as store,
        closing(features_of(settings)) as features,
    ):
        identity = take_identity(store)
        store.fence(identity.epoch, lost=stop.set)
        store.at_hand = Archives(settings.audit.archive_dir or layout.archives).stored
        bring_in_metrics(settings, store)
        try:
            _serve(settings, layout, ExpectingStore(store), features, identity, stop, config)
        finally:
            store.check()


def _serve(
    settings: Settings,
    layout: Layout,
    store: Store,
    features: PartitionedFeatures,
    identity: Identity,
    stop: threading.Event,
    config: Path | None,
) -> None:
    declared = {name: _declared(settings, name) for name in settings.targets}
    with store.write() as tx:
        record(tx, settings, at_us=wall_us())
        for name, target in settings.targets.items():
            bring_in_baseline(tx, name, target, now_us=wall_us())
    with (
        _fleet(settings, layout, identity) as fleet,
        closing(Inspection(layout.features_files, settings.features)) as inspection,
        closing(_commands(settings, layout)) as commands,
        closing(_bus(settings, inspection)) as bus,
        audit_desk(settings.audit, layout, store, clock=wall_us) as audit,
        reading_tokens(settings.oidc, now_us=wall_us) as tokens,
    ):
        loops = _loops(settings, declared, store, fleet, features, identity)
        feedback = FeedbackOperations(
            store, commands, inspection, tuple(settings.targets), clock=wall_us
        )
        rules = RuleFile(
            config, settings, declared, store, env=os.environ, swap=loops.swap, clock=wall_us
        )
        services = Services(
            settings=settings,
            store=store,
            store_file=store_address(settings),
            features=features,
            inspection=inspection,
            bus=bus.status,
            feedback=feedback,
            erasures=Erasures(feedback, settings, privacy_key(settings), clock=wall_us),
            operations=_operations(store, fleet, declared, loops),
            authenticator=Authenticator(store, cache_s=settings.serve.keys_cache_s, tokens=tokens),
            loop=loops,
            fleet=fleet,
            audit=audit,
            clock=wall_us,
            rules=rules,
        )
        with (
            loops.running(stop),
            rules.followed(stop),
            publishing(audit, stop),
            webhooks_running(settings, store, stop, clock=wall_us),
            retention_running(store, settings.privacy, clock=wall_us),
        ):
            serve_until(stop, make_app(services), settings.serve)
        loops.check()


def _operations(
    store: Store, fleet: Fleet, declared: Mapping[str, Declared], loops: Loops
) -> Operations:
    return Operations(
        store,
        fleet,
        declared,
        clock=wall_us,
        mono=monotonic_s,
        wake=loops.wake,
        lower=loops.lower,
    )


def _loops(
    settings: Settings,
    declared: Mapping[str, Declared],
    store: Store,
    fleet: Fleet,
    features: PartitionedFeatures,
    identity: Identity,
) -> Loops:
    rating = Rating(
        features=features,
        settings=settings.features,
        terms=lambda: terms(store, now_us=wall_us()),
    )
    lateness_s = settings.features.lateness_s
    return Loops(
        {
            name: TargetLoop(
                one,
                store,
                fleet,
                Looker(
                    one,
                    features,
                    Watched(fleet, name),
                    lateness_s=lateness_s,
                    rates=rating.of,
                ),
                ours=identity.ours,
                clock=wall_us,
                mono=time.monotonic,
                entropy=os.urandom,
            )
            for name, one in declared.items()
        }
    )


def _bus(settings: Settings, inspection: Inspection) -> BusView:
    def consumed(partition: int) -> Consumed:
        return lambda: inspection.offset(partition)

    return BusView(lambda: bus_readers(settings, consumed))


def _commands(settings: Settings, layout: Layout) -> HttpCommands:
    ingest = settings.ingest
    return HttpCommands(
        f"http://{ingest.host}:{ingest.port}",
        read_secret(layout.key("serve")),
        timeout_s=settings.serve.command_timeout_ms / 1000,
    )


def _declared(settings: Settings, name: str) -> Declared:
    target = settings.targets[name]
    return Declared(
        name=name,
        target=target,
        rules=load_rules(target, settings.metrics),
        trial=settings.trial,
        guardrails=settings.guardrails,
        serve=settings.serve,
        plant=settings.plant,
        learner=settings.learner,
        control=settings.control,
        drift=settings.drift,
        emergencies=settings.emergencies,
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
    bounds = settings.control
    fleet = Fleet(
        replicas,
        Latch(layout.latch),
        deadline_s=bounds.deadline_ms / 1000,
        threads=bounds.threads,
    )
    try:
        yield fleet
    finally:
        fleet.close()
        for actuator in actuators:
            actuator.close()

"""The one place that names concrete adapters and wires them, process by process.

Each ``run_*`` is one process's whole life: it returns when ``stop`` is set, and raises when it
can't go on. Nothing connects at import time, and each process imports only what it needs: the
serve process, which needs most, is wired in ``controller.serve_wiring``.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil

from controller.layout import Layout
from controller.processes.secret_files import read_secret
from controller.settings import Settings
from controller.store.address import StoreAddress
from signals.bus.port import Assignment, Bus, BusReader, BusStatus, Consumed
from signals.errors import Rejected, Unavailable
from signals.features.change import FeatureRules
from signals.features.partitioned import PartitionedFeatures
from signals.pseudonyms import Pseudonyms

BATCH_OBJECTS = 50_000


def run_ingest(settings: Settings, stop: threading.Event) -> None:
    """The signals API and the bus."""
    from controller.definition_reader import StoreDefinitions
    from controller.keys import StoreKeyReader
    from signals.ingest.main import run

    features = features_of(settings)
    address = store_address(settings)
    keys = StoreKeyReader(address, cache_s=settings.serve.keys_cache_s, settings=settings.store)
    definitions = StoreDefinitions(
        address, cache_s=settings.serve.definitions_cache_s, settings=settings.store
    )
    try:
        bus, status = _bus(settings, features)
        run(
            bus=bus,
            keys=keys,
            definitions=definitions,
            targets=settings.targets,
            settings=settings.ingest,
            stop=stop,
            status=status,
            pseudonyms=pseudonyms_of(settings),
        )
    finally:
        definitions.close()
        keys.close()
        features.close()


def pseudonyms_of(settings: Settings) -> Pseudonyms | None:
    """What takes the place of ids, where that was asked for. Raises ``Rejected`` without a key."""
    if not settings.privacy.hash_ids:
        return None
    return privacy_key(settings)


def privacy_key(settings: Settings) -> Pseudonyms:
    """Pseudonyms under keys/privacy.key. Raises ``Rejected`` when it can't be read."""
    path = Layout(settings.state_dir).key("privacy")
    try:
        return Pseudonyms(read_secret(path).encode())
    except (OSError, ValueError) as error:
        raise Rejected(f"{path} holds no key: {error}", field="privacy.hash_ids") from error


def run_features(settings: Settings, stop: threading.Event) -> None:
    """Dedupe, join, windows."""
    from controller.definition_reader import StoreDefinitions
    from signals.features.main import run

    definitions = StoreDefinitions(
        store_address(settings),
        cache_s=settings.serve.definitions_cache_s,
        settings=settings.store,
    )
    # A batch makes tens of thousands of objects that die with it and hold no cycles; looking for
    # some after every 700 of them costs a tenth of the stage's time.
    gc.freeze()
    gc.set_threshold(BATCH_OBJECTS)
    with closing(definitions), _assignment(settings) as assignment:
        run(
            assignment=assignment,
            path_of=Layout(settings.state_dir).features,
            intents={name: target.intents for name, target in settings.targets.items()},
            definitions=definitions,
            settings=settings.features,
            stop=stop,
        )


@contextmanager
def feature_rules(settings: Settings) -> Iterator[FeatureRules]:
    """What a feature stage folds by, with the definitions that are in the store."""
    from controller.definition_reader import StoreDefinitions

    with closing(StoreDefinitions(store_address(settings), settings=settings.store)) as definitions:
        yield FeatureRules(
            intents={name: target.intents for name, target in settings.targets.items()},
            definitions=definitions,
            settings=settings.features,
        )


def run_serve(settings: Settings, stop: threading.Event, *, config: Path | None = None) -> None:
    """The loop of each target, and the control plane. ``config``: the file whose rules it follows;

    None: ``trimtab.yaml`` in the working directory, if it is there.
    """
    from controller.serve_wiring import serve

    serve(settings, stop, config)


def store_address(settings: Settings) -> StoreAddress:
    """Where the controller's store is. Raises ``Rejected`` for a URL that is no store's."""
    return settings.store.address(Layout(settings.state_dir).store_db)


def partitions_of(settings: Settings) -> int:
    """How many partitions the bus has: a target's are all in one."""
    return settings.bus.kafka.partitions if settings.bus.kind == "kafka" else 1


def features_of(settings: Settings) -> PartitionedFeatures:
    """What the feature stages have made of the bus; the caller closes it."""
    return PartitionedFeatures(Layout(settings.state_dir).features, partitions_of(settings))


def features_ready(settings: Settings, pid: int) -> bool:
    """Whether that process follows the bus: its files can be read, and it has one open.

    Others of its group may have the rest.
    """
    path_of = Layout(settings.state_dir).features
    paths = {str(path_of(number).resolve()) for number in range(partitions_of(settings))}
    features = features_of(settings)
    try:
        features.bus_offsets()
        opened = psutil.Process(pid).open_files()
    except (Unavailable, psutil.Error):
        return False
    finally:
        features.close()
    return not paths.isdisjoint(file.path for file in opened)


def bus_readers(
    settings: Settings, consumed: Callable[[int], Consumed] | None = None
) -> dict[int, BusReader]:
    """A reader of each partition, to look into the log beside whoever owns it; the caller closes.

    ``consumed``: by partition, how far its feature stage is. Raises ``Unavailable``.
    """
    if settings.bus.kind == "kafka":
        from signals.bus.kafka.reading import open_readers

        return {
            **open_readers(
                settings.bus.kafka,
                range(partitions_of(settings)),
                consumed=lambda number: {} if consumed is None else {"features": consumed(number)},
            )
        }
    from signals.bus.sqlite import SqliteBusReader

    folder = Layout(settings.state_dir).bus
    consumers = {} if consumed is None else {"features": consumed(0)}
    return {0: SqliteBusReader(folder, consumers=consumers)}


def _bus(
    settings: Settings, features: PartitionedFeatures
) -> tuple[Bus, Callable[[], BusStatus] | None]:
    """The writing end. The SQLite log keeps what the feature stage has not read, and says where
    it is; Kafka's brokers say that of theirs."""
    if settings.bus.kind == "kafka":
        from signals.bus.kafka.producing import KafkaBus

        return KafkaBus(settings.bus), None
    from signals.bus.sqlite import SqliteBus

    consumers = {"features": lambda: features.bus_offsets()[0]}
    bus = SqliteBus(Layout(settings.state_dir).bus, settings.bus, consumers=consumers)
    return bus, bus.status


@contextmanager
def _assignment(settings: Settings) -> Iterator[Assignment]:
    if settings.bus.kind == "kafka":
        from signals.bus.kafka.membership import KafkaAssignment

        with closing(KafkaAssignment(settings.bus)) as member:
            yield member
        return
    from signals.bus.sqlite import SqliteBusReader
    from signals.features.owning import SoleOwner

    layout = Layout(settings.state_dir)
    with (
        closing(SqliteBusReader(layout.bus)) as reader,
        closing(SoleOwner(reader, layout.features_db)) as owner,
    ):
        yield owner

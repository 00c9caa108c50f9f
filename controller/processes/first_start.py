"""What must exist before anything can run: state directory, store, first keys, declared metrics.

::

    keys/control.key   between serve and the engine's control listener; known to nobody else
    keys/engine.key    the engine as a producer of basic signals
    keys/serve.key     serve as the one producer of commands to the feature stage
    keys/admin.key     the first person; he makes keys for everybody else
    keys/webhook-*.key the signing secret of each webhook that names no file of its own
    keys/audit.key     what the audit's heads are signed with; audit.public.json is for auditors
    keys/privacy.key   what pseudonyms of ids are keyed by

Idempotent: what is there stays. A key whose file was lost is made anew under the same name, for the
store keeps only hashes. The metrics that are built in or that the file declares are brought into
the store before ingest or the feature stage ask it for them.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

from controller import keys
from controller.audit.signing import make_audit_key
from controller.definitions import bring_in, declared_in, differs
from controller.keys import KeyRequest
from controller.layout import Layout
from controller.metric_versions import in_force
from controller.processes.secret_files import SECRET_BYTES, new_secret, write_secret
from controller.settings import Settings
from controller.store.address import StoreAddress
from controller.store.owning import exists, owning
from controller.store.port import Principal, Store
from controller.store.sql import SqlReader, open_store
from controller.webhooks.signing import new_secret as webhook_secret
from signals.errors import Unavailable

ACTOR = "set-up"

MakeKey = Callable[..., tuple[Principal, str]]

log = logging.getLogger(__name__)


def prepare(settings: Settings) -> tuple[Path, ...]:
    """Make what is missing; returns the secrets' files made now.

    Raises ``Unavailable`` when something is missing that only the stopped controller can make, and
    ``Conflict`` when the file changes of a metric what is for ever. Changed metrics are left to a
    controller that runs: it brings them in when it starts again, as it does other settings.
    """
    layout = Layout(settings.state_dir)
    layout.create()
    made: list[Path] = []
    for path, secret in _secrets(settings, layout).items():
        if not path.exists():
            write_secret(path, secret())
            made.append(path)
    if make_audit_key(layout, keys.wall_us()):
        made.append(layout.key("audit"))
    wanted = {layout.key(name): make for name, make in _first_keys(settings).items()}
    missing = {path: make for path, make in wanted.items() if not path.exists()}
    address = settings.store.address(layout.store_db)
    if missing or not exists(address, settings.store):
        with owning(address, settings.store):
            _create(settings, address, missing)
    elif _metrics_changed(settings, address):
        _bring_in_unless_running(settings, address)
    return (*made, *missing)


def _secrets(settings: Settings, layout: Layout) -> dict[Path, Callable[[], str]]:
    """Secrets that are in no store, and how each is made."""
    found = {layout.key("control"): new_secret, layout.key("privacy"): new_secret}
    for name, hook in settings.webhooks.hooks.items():
        if hook.secret_file is None:
            found[layout.key(f"webhook-{name}")] = lambda: webhook_secret(os.urandom(SECRET_BYTES))
    return found


def _first_keys(settings: Settings) -> dict[str, MakeKey]:
    admin = KeyRequest(name="admin", role="admin")
    found: dict[str, MakeKey] = {
        "admin": partial(keys.create, wanted=admin),
        "serve": keys.create_for_serve,
    }
    here = settings.here()
    if here is not None:
        engine = KeyRequest(
            name=f"engine-{here}", role="producer", kinds=("basic",), targets=(here,)
        )
        found["engine"] = partial(keys.create, wanted=engine)
    return found


def _create(settings: Settings, address: StoreAddress, missing: dict[Path, MakeKey]) -> None:
    with closing(open_store(address, settings.store)) as store:
        bring_in_metrics(settings, store)
        for path, make in missing.items():
            with store.write() as tx:
                _, token = make(tx, actor=ACTOR, at_us=keys.wall_us())
            write_secret(path, token)


def bring_in_metrics(settings: Settings, store: Store) -> None:
    """Make the store's definitions be as configured; idle when they are. Raises ``Conflict``."""
    with store.read() as tx:
        if not differs(tx.definitions(), declared_in(settings)):
            return
    with store.write() as tx:
        changed = bring_in(tx, declared_in(settings), at_us=keys.wall_us())
    for one in changed:
        state = "in force" if in_force(one) else "retired"
        log.info("metric %s, version %d of %s, is %s", one.name, one.version, one.managed_by, state)


def _metrics_changed(settings: Settings, address: StoreAddress) -> bool:
    """Whether the store's definitions are not as configured; also when they can't be read."""
    with closing(SqlReader(address, settings.store)) as reader:
        try:
            with reader.read() as tx:
                return differs(tx.definitions(), declared_in(settings))
        except Unavailable:
            return True


def _bring_in_unless_running(settings: Settings, address: StoreAddress) -> None:
    with ExitStack() as stack:
        try:
            stack.enter_context(owning(address, settings.store))
        except Unavailable:
            log.warning("metrics differ from the file; serve brings them in when it starts again")
            return
        bring_in_metrics(
            settings, stack.enter_context(closing(open_store(address, settings.store)))
        )

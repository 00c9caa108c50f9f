"""What must exist before anything can run: the state directory, the store, the first keys.

::

    keys/control.key   between serve and the engine's control listener; known to nobody else
    keys/engine.key    the engine as a producer of basic signals
    keys/admin.key     the first person; he makes keys for everybody else

Idempotent: what is there stays. A key whose file was lost is made anew under the same name, for the
store keeps only hashes.
"""

from __future__ import annotations

from pathlib import Path

from controller import keys
from controller.keys import KeyRequest
from controller.layout import Layout
from controller.processes.secret_files import new_secret, write_secret
from controller.settings import Settings
from controller.store.sql import open_store
from signals.file_lock import FileLock

ACTOR = "set-up"


def prepare(settings: Settings) -> tuple[Path, ...]:
    """Make what is missing; returns the secrets' files made now.

    Raises ``Unavailable`` when something is missing that only the stopped controller can make.
    """
    layout = Layout(settings.state_dir)
    layout.create()
    made: list[Path] = []
    if not layout.key("control").exists():
        write_secret(layout.key("control"), new_secret())
        made.append(layout.key("control"))
    wanted = {layout.key(name): request for name, request in _first_keys(settings).items()}
    missing = {path: request for path, request in wanted.items() if not path.exists()}
    if missing or not layout.store_db.exists():
        with FileLock(layout.store_db):
            _create(settings, layout, missing)
    return (*made, *missing)


def _first_keys(settings: Settings) -> dict[str, KeyRequest]:
    found = {"admin": KeyRequest(name="admin", role="admin")}
    here = settings.here()
    if here is not None:
        found["engine"] = KeyRequest(
            name=f"engine-{here}", role="producer", kinds=("basic",), targets=(here,)
        )
    return found


def _create(settings: Settings, layout: Layout, missing: dict[Path, KeyRequest]) -> None:
    store = open_store(layout.store_url, settings.store)
    try:
        for path, request in missing.items():
            with store.write() as tx:
                _, token = keys.create(tx, request, actor=ACTOR, at_us=keys.wall_us())
            write_secret(path, token)
    finally:
        store.close()

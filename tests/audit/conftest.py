"""A store, a folder outside, and a desk over them."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from controller.audit.desk import AuditDesk, audit_desk
from controller.audit.settings import AuditSettings
from controller.audit.verify import Outside, Verification, verify
from controller.layout import Layout
from controller.store.sql import SqlStore, open_store
from policies.published import decode_keys
from tests.store.samples import NOW_US


class World:
    """A state directory, a place outside, and a clock that only goes when it is told to."""

    def __init__(self, folder: Path) -> None:
        self.layout = Layout(folder / "state")
        self.layout.create()
        self.outside = folder / "outside"
        self.outside.mkdir()
        self.heads = self.outside / "heads.jsonl"
        self.now_us = NOW_US
        self.store: SqlStore | None = None

    def clock(self) -> int:
        self.now_us += 1000
        return self.now_us

    @contextmanager
    def desk(self, **settings: Any) -> Iterator[AuditDesk]:
        """The store open, and its desk."""
        self.store = SqlStore(self.layout.store_db)
        given = AuditSettings(**({"sink": str(self.heads)} | settings))
        try:
            with audit_desk(given, self.layout, self.store, clock=self.clock) as desk:
                yield desk
        finally:
            self.store.close()

    def append(self, count: int = 1, **fields: Any) -> None:
        """So many entries that are about nothing."""
        assert self.store is not None
        for _ in range(count):
            with self.store.write() as tx:
                entry = {"actor": "ann", "action": "rule.fired", "subject": "slow"} | fields
                tx.append_audit(
                    at_us=self.clock(), target="chat", details={"at": self.now_us}, **entry
                )

    def kept_outside(self) -> Outside:
        """What the auditor has: the sink's lines, and the public keys as they are."""
        keys = decode_keys(self.layout.audit_public.read_bytes())
        return Outside(lines=self.heads.read_bytes().splitlines(), keys=keys)

    def verified(self, *, archives: bool = False) -> Verification:
        folder = self.layout.archives if archives else None
        return verify(self.layout.store_db, outside=self.kept_outside(), archives=folder)


def save(world: World, backup: Path) -> None:
    with closing(sqlite3.connect(world.layout.store_db)) as store:
        store.execute("VACUUM INTO ?", (str(backup),))


def put_back(world: World, backup: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        world.layout.store_db.with_name(f"store.db{suffix}").unlink(missing_ok=True)
    shutil.copy(backup, world.layout.store_db)


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("empty") / "store.db"
    open_store(path).close()
    return path


@pytest.fixture
def world(tmp_path: Path, empty_store: Path) -> World:
    made = World(tmp_path)
    shutil.copy(empty_store, made.layout.store_db)
    return made

"""The store on a SQL database: one writer, readers in any thread or process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Engine, event

from controller.store.address import StoreAddress, address_of
from controller.store.appending import Head
from controller.store.archive_rows import ArchiveRows
from controller.store.connecting import reading_engine, translated, writing_engine
from controller.store.control_rows import ControlRows
from controller.store.declaration_rows import DeclarationRows
from controller.store.delivery_rows import DeliveryRows
from controller.store.entry_rows import AtHand
from controller.store.history_rows import HistoryRows
from controller.store.key_rows import KeyRows
from controller.store.metric_rows import MetricRows
from controller.store.override_rows import OverrideRows
from controller.store.owning import Owner
from controller.store.policy_rows import PolicyRows
from controller.store.segment_rows import SegmentRows
from controller.store.settings import StoreSettings
from controller.store.tree_rows import TreeRows
from controller.store.trial_rows import TrialRows
from signals.errors import Broken, Fenced, Unavailable


class SqlTx(
    PolicyRows,
    TrialRows,
    KeyRows,
    ControlRows,
    MetricRows,
    OverrideRows,
    DeclarationRows,
    SegmentRows,
    HistoryRows,
    DeliveryRows,
    TreeRows,
    ArchiveRows,
):
    """One transaction; each noun's methods are in its own file."""


class SqlReader:
    """Snapshots of a store that some process writes. Opens nothing until the first read.

    ``at_hand``: where archived entries' bytes are looked up; unset, they are not at hand.
    """

    def __init__(self, where: StoreAddress | Path, settings: StoreSettings | None = None) -> None:
        self._reading = reading_engine(address_of(where), settings or StoreSettings())
        self.at_hand: AtHand | None = None

    @contextmanager
    def read(self) -> Iterator[SqlTx]:
        """A snapshot, as of its first query. Raises ``Unavailable``."""
        with translated(), self._reading.begin() as connection:
            tx = SqlTx(connection, writing=False)
            tx.at_hand = self.at_hand
            yield tx

    def close(self) -> None:
        """Idempotent."""
        self._reading.dispose()


class SqlStore(SqlReader):
    """The store, for the one process that writes it. ``open_store`` builds one.

    ``owner``: renewed whenever the database had to be reached anew.
    """

    def __init__(
        self,
        where: StoreAddress | Path,
        settings: StoreSettings | None = None,
        *,
        owner: Owner | None = None,
    ) -> None:
        settings = settings or StoreSettings()
        super().__init__(where, settings)
        self._writing: Engine = writing_engine(address_of(where), settings)
        if owner is not None:
            event.listen(self._writing, "connect", lambda *_: owner.renew())
        self._wait_s = settings.busy_timeout_ms / 1000
        self._lock = threading.Lock()
        self._holder: int | None = None
        self._writes = 0
        self._epoch: int | None = None
        self._lost: Callable[[], None] | None = None
        self._fenced: Fenced | None = None
        self._head: Head | None = None

    @property
    def writes(self) -> int:
        """Rises with every write that committed: what was read before it may be old.

        It rises too where the database was lost as it committed, so that nobody knows.
        """
        return self._writes

    def fence(self, epoch: int, *, lost: Callable[[], None] | None = None) -> None:
        """From now on only write while the store's epoch is this one: see ``take_identity``.

        ``lost`` is called when it is not, by whoever comes to know of it.
        """
        self._epoch, self._lost = epoch, lost

    def check(self) -> None:
        """Raise ``Fenced`` when another has taken the store over."""
        if self._fenced is not None:
            raise self._fenced

    @contextmanager
    def write(self) -> Iterator[SqlTx]:
        """One at a time. Raises ``Unavailable`` if the lock does not come within the busy timeout,
        ``Fenced`` when a newer serve owns the store; nothing was written then.

        Compute first, then open it: everybody who writes waits for it.
        """
        with self._alone():
            seen, self._head, tx = self._head, None, None
            try:
                with translated(), self._writing.begin() as connection:
                    tx = SqlTx(connection, writing=True, epoch=self._epoch, head=seen)
                    yield tx
                    tx.finish()
                self._head = tx.head
            except Fenced as fenced:
                self._fenced = fenced
                if self._lost is not None:
                    self._lost()
                raise
            finally:
                self._writes += tx is not None and tx.ending

    def close(self) -> None:
        """Idempotent."""
        self._writing.dispose()
        super().close()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if self._holder == threading.get_ident():
            raise Broken("a write transaction was opened inside another")
        if not self._lock.acquire(timeout=self._wait_s):
            raise Unavailable("another writer of this process holds the store")
        self._holder = threading.get_ident()
        try:
            yield
        finally:
            self._holder = None
            self._lock.release()


def open_store(
    where: StoreAddress | Path | str,
    settings: StoreSettings | None = None,
    *,
    owner: Owner | None = None,
) -> SqlStore:
    """Bring the store at an address, a path or a URL to the newest schema; open it for writing.

    Raises ``Rejected`` for a URL that is no store's, or a store of a newer version.
    """
    from controller.store.migrate import upgrade

    address = address_of(where)
    if address.file is not None:
        address.file.parent.mkdir(parents=True, exist_ok=True)
    upgrade(address, settings)
    return SqlStore(address, settings, owner=owner)

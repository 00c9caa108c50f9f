"""The audit of a serve process: tree, publisher and archives, wired, on a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import msgspec
from msgspec import Struct

from controller.audit.archives import Archives
from controller.audit.live_tree import LiveTree
from controller.audit.publishing import Publisher
from controller.audit.sealing import Sealer
from controller.audit.settings import AuditSettings
from controller.audit.signing import Signer, make_audit_key
from controller.audit.sinks import Sink, open_sink
from controller.audit.verify import Outside
from controller.layout import Layout
from controller.store.port import Store
from signals.errors import Broken, Unavailable

JOIN_S = 10.0


class AuditDesk(Struct, frozen=True, kw_only=True):
    """What routes need of the audit, beside the store. ``verifying``: held by who verifies."""

    tree: LiveTree
    publisher: Publisher
    sealer: Sealer
    archives: Archives
    signer: Signer
    sink: Sink
    verifying: threading.Lock = msgspec.field(default_factory=threading.Lock)

    def outside(self) -> Outside | None:
        """What can be read back from the sink; None where it can't be."""
        try:
            lines = self.sink.lines()
            return None if lines is None else Outside(lines=list(lines), keys=self.signer.public)
        except Unavailable:
            return None


@contextmanager
def audit_desk(
    settings: AuditSettings, layout: Layout, store: Store, *, clock: Callable[[], int]
) -> Iterator[AuditDesk]:
    """Open it; makes the signing key where there is none. Raises ``Rejected``, ``Unavailable``."""
    make_audit_key(layout, clock())
    with closing(open_sink(settings, layout)) as sink:
        signer, tree = Signer(layout), LiveTree(store)
        archives = Archives(settings.archive_dir or layout.archives)
        publisher = Publisher(store, tree, signer, sink, layout, settings, clock=clock)
        publisher.settle()
        yield AuditDesk(
            tree=tree,
            publisher=publisher,
            sealer=Sealer(store, archives, clock=clock),
            archives=archives,
            signer=signer,
            sink=sink,
        )


@contextmanager
def publishing(desk: AuditDesk, stop: threading.Event) -> Iterator[None]:
    """Publish while the ``with`` is open.

    Raises ``Broken`` at the end when the thread failed; ``stop`` is set then.
    """
    ours = threading.Event()

    def run() -> None:
        try:
            desk.publisher.run(ours)
        except BaseException:
            stop.set()
            raise

    thread = threading.Thread(target=run, name="audit-heads", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ours.set()
        thread.join(JOIN_S)
    if desk.publisher.failed is not None:
        raise Broken("the audit's publisher failed") from desk.publisher.failed
